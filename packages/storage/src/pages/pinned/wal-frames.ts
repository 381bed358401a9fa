import { readSync } from 'node:fs'
import { NexusError } from '@nexus/errors'
import { continueChecksum, isSameChecksum, type Checksum, type WalIndex } from './wal-index.ts'

const WAL_HEADER_BYTES = 32
/** What stands before the page of each frame. */
export const FRAME_HEADER_BYTES = 24
const SALTS_AT = 8
const PIECE_BYTES = 256 * 1024

/** A WAL that doesn't hold what its index says: it was replaced, removed or begun anew. */
export class WalMismatchError extends NexusError {
  constructor(path: string, why: string) {
    const message = `The WAL of ${path} is not the one that its index describes: ${why}. Close every connection to the database and open it again`
    super('CORRUPT', message, { op: 'storage.capture', key: path })
    this.name = 'WalMismatchError'
  }
}

/** Frames of one generation of a WAL. */
export interface FrameRun {
  readonly fd: number
  readonly path: string
  readonly index: WalIndex
  /** The last frame that was looked at before, and the checksum up to it; none: from the beginning. */
  readonly after: { readonly frame: number; readonly checksum: Checksum } | undefined
}

/** Where a frame begins in the WAL. */
export function frameAt(frame: number, pageSize: number): number {
  return WAL_HEADER_BYTES + (frame - 1) * (FRAME_HEADER_BYTES + pageSize)
}

/** The checksum that the first frame goes on from. */
function startOf({ fd, path, index }: FrameRun): { frame: number; checksum: Checksum } {
  const header = Buffer.alloc(WAL_HEADER_BYTES)
  const bytes = readSync(fd, header, 0, WAL_HEADER_BYTES, 0)
  if (bytes < WAL_HEADER_BYTES) throw new WalMismatchError(path, 'it has no header')
  if (!header.subarray(16, 24).equals(index.salts)) throw new WalMismatchError(path, 'it is of another generation')
  return { frame: 0, checksum: [header.readUInt32BE(24), header.readUInt32BE(28)] }
}

/**
 * Reads the frames up to the last committed one, and hands over each with the page that it holds. Yields after each piece of
 * about 256 KiB, so that the caller can let others run.
 *
 * @throws WalMismatchError when a frame is of another generation, or its checksum doesn't continue that of the one before
 */
export function* readFrames(run: FrameRun, onFrame: (page: number, frame: number) => void): Generator<void, void> {
  const { fd, path, index } = run
  const { pageSize, lastFrame, salts } = index
  let { frame, checksum } = run.after ?? startOf(run)
  const frameBytes = FRAME_HEADER_BYTES + pageSize
  const wordsAt = (at: number, bytes: number): Int32Array =>
    new Int32Array(piece.buffer, piece.byteOffset + at, bytes / 4)
  const perPiece = Math.max(1, Math.floor(PIECE_BYTES / frameBytes))
  const piece = Buffer.alloc(Math.min(perPiece, lastFrame - frame) * frameBytes)
  while (frame < lastFrame) {
    const count = Math.min(perPiece, lastFrame - frame)
    const bytes = readSync(fd, piece, 0, count * frameBytes, frameAt(frame + 1, pageSize))
    if (bytes < count * frameBytes) throw new WalMismatchError(path, 'it is too short')
    for (let at = 0; at < bytes; at += frameBytes) {
      frame++
      const head = piece.subarray(at, at + FRAME_HEADER_BYTES)
      if (!head.subarray(SALTS_AT, SALTS_AT + 8).equals(salts))
        throw new WalMismatchError(path, `frame ${frame} is of another generation`)
      // The salts and the checksum itself are not part of it.
      checksum = continueChecksum(checksum, wordsAt(at, SALTS_AT))
      checksum = continueChecksum(checksum, wordsAt(at + FRAME_HEADER_BYTES, pageSize))
      if (!isSameChecksum(checksum, [head.readUInt32BE(16), head.readUInt32BE(20)]))
        throw new WalMismatchError(path, `the checksum of frame ${frame} is wrong`)
      onFrame(head.readUInt32BE(0), frame)
    }
    yield
  }
  if (!isSameChecksum(checksum, index.checksum)) throw new WalMismatchError(path, 'its last frame is another one')
}

/** Whether a frame's header is of that page and generation. */
export function isFrameOf(header: Buffer, page: number, { salts }: WalIndex): boolean {
  return header.readUInt32BE(0) === page && header.subarray(SALTS_AT, SALTS_AT + 8).equals(salts)
}
