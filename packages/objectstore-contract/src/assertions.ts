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

/** Demands that a call rejects with exactly the reason its signal was aborted with. */
export async function assertAborted(what: string, reason: unknown, call: () => Promise<unknown>): Promise<void> {
  const error = await rejectionOf(`${what} under an aborted signal`, call)
  assert.equal(
    error,
    reason,
    `${what} rejected with ${String(error)}, but it must reject with the reason of the signal`,
  )
}

/** Demands that an error's message names each of the keys, plainly or as quoted. */
export function assertNames(error: unknown, ...keys: string[]): void {
  const message = error instanceof Error ? error.message : String(error)
  for (const key of keys) {
    const named = message.includes(key) || message.includes(JSON.stringify(key).slice(1, -1))
    assert.ok(named, `the error does not name ${quoteKey(key)}: ${message}`)
  }
}

/** Bytes that differ at every position from those of another seed, and don't repeat with any power of two. */
export function patternBytes(size: number, seed: number): Buffer {
  const bytes = Buffer.allocUnsafe(size)
  for (let i = 0; i < size; i++) bytes[i] = (i + seed * 101 + Math.floor(i / 251)) & 0xff
  return bytes
}
