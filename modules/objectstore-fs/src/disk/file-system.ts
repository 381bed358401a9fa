import fs from 'node:fs'
import { constants } from 'node:fs'

/** The functions of `node:fs` that the bucket uses: synchronous ones only, because asynchronous ones would share libuv's
 * pool with the rest of the process. Tests hand in faulty ones. */
export type SyncFileSystem = Pick<
  typeof fs,
  | 'openSync'
  | 'closeSync'
  | 'readSync'
  | 'writeSync'
  | 'fstatSync'
  | 'lstatSync'
  | 'statSync'
  | 'mkdirSync'
  | 'readdirSync'
  | 'renameSync'
  | 'linkSync'
  | 'unlinkSync'
  | 'fdatasyncSync'
  | 'fsyncSync'
>

export const nodeFileSystem: SyncFileSystem = fs

/** Neither follows a planted link nor waits for the writer of a FIFO. */
export const READ_FLAGS: number = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
/** For the caller's own file: it may be a link, but must not make us wait. */
export const SOURCE_FLAGS: number = constants.O_RDONLY | constants.O_NONBLOCK
export const CREATE_FLAGS: number = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL
export const DIRECTORY_FLAGS: number = constants.O_RDONLY | constants.O_DIRECTORY

export function errorCode(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
}

/** Runs a call and gives undefined when it fails with one of the codes. */
export function unless<T>(codes: readonly string[], call: () => T): T | undefined {
  try {
    return call()
  } catch (error) {
    if (codes.includes(errorCode(error) ?? '')) return undefined
    throw error
  }
}
