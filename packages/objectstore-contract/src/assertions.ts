import assert from 'node:assert/strict'
import { isInvalidKeyError, quoteKey } from '@nexus/objectstore'

/** Runs a call that must reject and gives the error. A call that throws instead of rejecting fails, too. */
export async function rejectionOf(what: string, call: () => Promise<unknown>): Promise<unknown> {
  let promise: Promise<unknown>
  try {
    promise = call()
  } catch (error) {
    return assert.fail(`${what} threw at once instead of rejecting its promise: ${String(error)}`)
  }
  let value: unknown
  try {
    value = await promise
  } catch (error) {
    return error
  }
  return assert.fail(
    `${what} resolved${value === undefined ? '' : ` with ${JSON.stringify(value)}`}, but it must reject`,
  )
}

/** Demands that a call rejects with `InvalidKeyError`. */
export async function assertKeyRefused(method: string, key: string, call: () => Promise<unknown>): Promise<void> {
  const what = `${method} of ${quoteKey(key)}`
  const error = await rejectionOf(what, call)
  assert.ok(isInvalidKeyError(error), `${what} rejected with ${String(error)}, but it must reject with InvalidKeyError`)
}

/** Demands that a call under an aborted signal rejects; with what is the driver's choice. */
export async function assertAborted(what: string, call: () => Promise<unknown>): Promise<void> {
  await rejectionOf(`${what} under an aborted signal`, call)
}

/** Demands that an error's message names each of the keys, plainly or as quoted. */
export function assertNames(error: unknown, ...keys: string[]): void {
  const message = error instanceof Error ? error.message : String(error)
  for (const key of keys) {
    const named = message.includes(key) || message.includes(JSON.stringify(key).slice(1, -1))
    assert.ok(named, `the error does not name ${quoteKey(key)}: ${message}`)
  }
}

/** Pseudo-random bytes, the same for the same size and seed; no part of them repeats. */
export function patternBytes(size: number, seed: number): Buffer {
  const words = new Uint32Array(Math.ceil(size / 4))
  let state = (seed + 1) * 0x9e3779b9
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    words[i] = state
  }
  return Buffer.from(words.buffer, 0, size)
}
