import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { fromSystemError, isNexusError } from '@nexus/errors'
import { isObjectNotFound, type ObjectStore } from '@nexus/objectstore'

/** How an object is read into memory. */
export interface ReadObjectOptions {
  /** Where its bytes go for a moment: a path that only this caller uses. */
  scratchPath: string
  /** Bytes to take from its start, default: all. */
  length?: number
  signal?: AbortSignal | undefined
}

/**
 * The bytes of an object, or its first ones.
 *
 * @returns undefined only when the store says that it does not exist; an outage throws
 */
export async function readObject(
  store: ObjectStore,
  key: string,
  { scratchPath, ...options }: ReadObjectOptions,
): Promise<Buffer | undefined> {
  await mkdir(dirname(scratchPath), { recursive: true, mode: 0o700 })
  try {
    await store.get(key, scratchPath, options)
    return await readFile(scratchPath)
  } catch (error) {
    if (isObjectNotFound(error)) return undefined
    throw isNexusError(error) || options.signal?.aborted === true
      ? error
      : fromSystemError(error, 'durability.read-object', scratchPath)
  } finally {
    await rm(scratchPath, { force: true })
  }
}

/** Stores an object whose bytes are made in memory. */
export async function writeObject(
  store: ObjectStore,
  key: string,
  bytes: string,
  { scratchPath, signal }: { scratchPath: string; signal: AbortSignal },
): Promise<void> {
  await mkdir(dirname(scratchPath), { recursive: true, mode: 0o700 })
  try {
    await writeFile(scratchPath, bytes, { mode: 0o600 })
    await store.put(key, scratchPath, { signal })
  } finally {
    await rm(scratchPath, { force: true })
  }
}
