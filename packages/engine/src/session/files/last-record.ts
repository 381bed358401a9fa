import { closeSync, constants, fstatSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs'
import { isJsonObject } from '@nexus/host'
import type { TreeSlot } from '@nexus/host'
import { openToRead } from './regular-file.ts'

/** The end of a record that was cut off: it lies beside the file now. */
export interface TornRecord {
  /** Session-relative. */
  keptAt: string
  /** Bytes from the start of the file. */
  offset: number
  sizeBytes: number
}

const NEWLINE = 0x0a
const CHUNK_BYTES = 64 * 1024
const OPEN_ASIDE = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW
const OPEN_TO_CUT = constants.O_WRONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/**
 * Looks whether the last record of a file of JSON lines has its newline: without it, the next record would end up on the same
 * line, and both would be lost.
 *
 * @returns `newline` when one is to be written first; `torn` when what was there is no record and has been put aside
 */
export function endLastRecord(slot: TreeSlot, isCut: boolean): { newline: boolean; torn?: TornRecord } {
  const fd = openToRead(slot)
  try {
    const { size } = fstatSync(fd)
    const tail = lastLine(fd, size)
    if (tail.length === 0) return { newline: false }
    if (isJsonObject(tail.toString()) || !isCut) return { newline: isJsonObject(tail.toString()) }
    return { newline: false, torn: putAside(slot, tail, size - tail.length) }
  } finally {
    closeSync(fd)
  }
}

/** What follows the last newline. */
function lastLine(fd: number, size: number): Buffer {
  const parts: Buffer[] = []
  for (let end = size; end > 0;) {
    const start = Math.max(0, end - CHUNK_BYTES)
    const chunk = Buffer.alloc(end - start)
    readSync(fd, chunk, 0, chunk.length, start)
    const newline = chunk.lastIndexOf(NEWLINE)
    parts.unshift(chunk.subarray(newline + 1))
    if (newline !== -1) break
    end = start
  }
  return Buffer.concat(parts)
}

/** Kept before it is cut off: a kill in between leaves it in both places, and the next append does the same again. */
function putAside(slot: TreeSlot, tail: Buffer, offset: number): TornRecord {
  const name = `${slot.name}.torn-${offset}`
  withOpen(slot.parent.at(name), OPEN_ASIDE, (fd) => {
    for (let at = 0; at < tail.length;) at += writeSync(fd, tail, at)
  })
  withOpen(slot.path, OPEN_TO_CUT, (fd) => ftruncateSync(fd, offset))
  const keptAt = slot.parent.relPath === '' ? name : `${slot.parent.relPath}/${name}`
  return { keptAt, offset, sizeBytes: tail.length }
}

function withOpen(path: string, flags: number, run: (fd: number) => void): void {
  const fd = openSync(path, flags, 0o600)
  try {
    run(fd)
  } finally {
    closeSync(fd)
  }
}
