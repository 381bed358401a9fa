import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isNexusError, NexusError, systemCode } from '@nexus/errors'
import type { ObjectStore } from '@nexus/objectstore'

/** Where one small object lives, remotely and on its way. */
export interface SmallObject {
  key: string
  /** A prefix that holds this object and nothing large: what a backend without `get` hydrates. */
  keyPrefix: string
  /** A path that only this caller uses; a file and a directory of that name come and go there. */
  scratchPath: string
}

/**
 * Reads one small object, by `get` where the backend has it, else by hydrating its prefix.
 *
 * @returns undefined only when the store says that it does not exist; an outage throws
 * @throws `CORRUPT` when it is larger than `limitBytes`
 */
export async function readSmallObject(
  store: ObjectStore,
  object: SmallObject,
  { limitBytes, signal }: { limitBytes: number; signal?: AbortSignal },
): Promise<Buffer | undefined> {
  const options = signal === undefined ? {} : { signal }
  await mkdir(dirname(object.scratchPath), { recursive: true, mode: 0o700 })
  try {
    // A killed process may have left either kind there.
    await rm(object.scratchPath, { recursive: true, force: true })
    if (store.capabilities.get) {
      await store.get(object.key, object.scratchPath, { ...options, length: limitBytes + 1 })
      return checkSize(object.key, await readFile(object.scratchPath), limitBytes)
    }
    await mkdir(object.scratchPath, { mode: 0o700 })
    await store.hydrate(object.keyPrefix, object.scratchPath, options)
    const name = object.key.slice(object.keyPrefix.length + 1)
    return checkSize(object.key, await readFile(join(object.scratchPath, name)), limitBytes)
  } catch (error) {
    const missing = isNexusError(error, 'NOT_FOUND') || systemCode(error) === 'ENOENT'
    if (missing) return undefined
    throw error
  } finally {
    await rm(object.scratchPath, { recursive: true, force: true })
  }
}

/** Stores a small object whose bytes are made in memory. */
export async function writeSmallObject(
  store: ObjectStore,
  object: SmallObject,
  bytes: string,
  { signal }: { signal?: AbortSignal } = {},
): Promise<void> {
  await mkdir(dirname(object.scratchPath), { recursive: true, mode: 0o700 })
  try {
    await writeFile(object.scratchPath, bytes, { mode: 0o600 })
    await store.put(object.key, object.scratchPath, signal === undefined ? {} : { signal })
  } finally {
    await rm(object.scratchPath, { recursive: true, force: true })
  }
}

function checkSize(key: string, bytes: Buffer, limitBytes: number): Buffer {
  if (bytes.length <= limitBytes) return bytes
  throw new NexusError('CORRUPT', `object ${key} is larger than the ${limitBytes} bytes it may have`, {
    op: 'durability.read-object',
    key,
  })
}
