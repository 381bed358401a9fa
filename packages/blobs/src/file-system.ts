import fs from 'node:fs'
import { constants } from 'node:fs'

/** The functions of `node:fs` that the store calls; tests hand in faulty or recording ones. */
export type BlobFileSystem = Pick<
  typeof fs,
  | 'openSync'
  | 'closeSync'
  | 'writeSync'
  | 'readSync'
  | 'fstatSync'
  | 'lstatSync'
  | 'lutimesSync'
  | 'futimesSync'
  | 'mkdirSync'
  | 'readdirSync'
  | 'renameSync'
  | 'unlinkSync'
  | 'open'
  | 'read'
  | 'write'
  | 'fdatasync'
  | 'fsync'
>

export const nodeFileSystem: BlobFileSystem = fs

/** Neither follows a planted link nor waits for the writer of a planted FIFO. */
export const READ_FLAGS: number = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

export const CREATE_FLAGS: number = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL

/**
 * Makes each write return only when its bytes are durable: one trip to the thread pool instead of two. Linux only: on
 * macOS the flag stops at the drive's cache, which `fdatasync` there does not.
 */
export const WRITE_THROUGH_FLAG: number = process.platform === 'linux' ? constants.O_DSYNC : 0

export const FILE_MODE = 0o600
export const DIRECTORY_MODE = 0o700

/** Writes all of `data`, which must not change meanwhile. */
export function writeFully(fs_: BlobFileSystem, fd: number, data: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    let done = 0
    const step = (): void => {
      fs_.write(fd, data, done, data.length - done, null, (error, written) => {
        if (error !== null) return reject(error)
        done += written
        if (done < data.length) return step()
        resolve()
      })
    }
    step()
  })
}

export function writeFullySync(fs_: BlobFileSystem, fd: number, data: Uint8Array): void {
  for (let done = 0; done < data.length;) done += fs_.writeSync(fd, data, done, data.length - done, null)
}

/** Reads up to `buffer.length` bytes at the descriptor's position; 0 at the end. */
export function readSome(fs_: BlobFileSystem, fd: number, buffer: Uint8Array): Promise<number> {
  return new Promise((resolve, reject) => {
    fs_.read(fd, buffer, 0, buffer.length, null, (error, bytes) => (error === null ? resolve(bytes) : reject(error)))
  })
}

export function dataSync(fs_: BlobFileSystem, fd: number): Promise<void> {
  return new Promise((resolve, reject) => fs_.fdatasync(fd, (error) => (error === null ? resolve() : reject(error))))
}

export function fullSync(fs_: BlobFileSystem, fd: number): Promise<void> {
  return new Promise((resolve, reject) => fs_.fsync(fd, (error) => (error === null ? resolve() : reject(error))))
}

/** Removes a file, and tells whether there was one. */
export function unlinkIfThere(fs_: BlobFileSystem, path: string): boolean {
  try {
    fs_.unlinkSync(path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}
