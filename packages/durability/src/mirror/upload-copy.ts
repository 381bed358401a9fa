import { createHash } from 'node:crypto'
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs'
import { NexusError } from '@nexus/errors'
import { openRegular, readSteps, type Slices } from '@nexus/host'
import { sameFileStat, toFileStat, type FileStat } from '../tree/tree-stat.ts'

/** A private copy of a file: nothing else writes to it. */
export interface PrivateCopy {
  /** What the original was when the copy began, but for `size`: bytes in the copy. */
  stat: FileStat
  sha256: string
}

const MAX_TRIES = 3

/**
 * Copies the first `size` bytes of a file, `size` taken at its opening, and hashes them on the way. A file that changes
 * while it is copied is copied again, three times at most: the last copy is kept as it is, and for one that is only
 * appended to that is exact.
 *
 * @param destPath does not exist yet
 * @throws the system error of the original, as `openRegular` does; `LOCAL_IO` when the copy can't be written
 */
export async function copyPrivately(path: string, destPath: string, slices: Slices): Promise<PrivateCopy> {
  const { fd } = openRegular(path)
  try {
    let before = toFileStat(fstatSync(fd, { bigint: true }))
    for (let tries = 1; ; tries++) {
      const copy = await copyOnce(fd, before, destPath, slices)
      const after = toFileStat(fstatSync(fd, { bigint: true }))
      if (tries === MAX_TRIES || sameFileStat(before, after)) return copy
      before = after
    }
  } finally {
    closeSync(fd)
  }
}

async function copyOnce(from: number, stat: FileStat, destPath: string, slices: Slices): Promise<PrivateCopy> {
  const hash = createHash('sha256')
  const to = writing(destPath, () => openSync(destPath, 'w', 0o600))
  try {
    let failure: { error: unknown } | undefined
    const steps = readSteps(from, stat.size, (part) => {
      hash.update(part)
      try {
        for (let at = 0; at < part.length;) at += writeSync(to, part, at)
      } catch (error) {
        failure = { error }
      }
    })
    for (;;) {
      const step = steps.next()
      if (failure !== undefined) throw copyFailed(destPath, failure.error)
      if (step.done === true) return { stat: { ...stat, size: step.value }, sha256: hash.digest('hex') }
      if (slices.due) await slices.pause()
    }
  } finally {
    closeSync(to)
  }
}

function writing<T>(path: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    throw copyFailed(path, error)
  }
}

function copyFailed(path: string, cause: unknown): NexusError {
  const detail = cause instanceof Error ? cause.message : String(cause)
  return new NexusError('LOCAL_IO', `a private copy could not be written to ${path}: ${detail}`, {
    op: 'snapshot.copy',
    key: path,
    cause,
  })
}
