import { randomFillSync } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SessionWorkspace } from '@nexus/engine'

const MIB = 1024 * 1024
const FILES_PER_DIR = 100

/** How large a session is made. */
export interface SessionShape {
  what: string
  /** Objects of one commit, those that every session has included. */
  objects: number
  /** Bytes of the files that are added. */
  fileBytes: number
  /** Blobs among the objects; each is two, its bytes and its media type. */
  blobs: number
  blobBytes: number
}

export const TINY: SessionShape = {
  what: '17 objects, 0.05 MiB',
  objects: 17,
  fileBytes: 0.05 * MIB,
  blobs: 0,
  blobBytes: 0,
}
export const SMALL: SessionShape = {
  what: '207 objects, 6 MiB',
  objects: 207,
  fileBytes: 6 * MIB,
  blobs: 0,
  blobBytes: 0,
}
export const LARGE: SessionShape = {
  what: '1,007 objects, 91 MiB',
  objects: 1007,
  fileBytes: 91 * MIB,
  blobs: 0,
  blobBytes: 0,
}
export const WITH_BLOBS: SessionShape = {
  what: '2,007 objects with 500 blobs, 90 MiB',
  objects: 2007,
  fileBytes: 31 * MIB,
  blobs: 500,
  blobBytes: 59 * MIB,
}

/** Adds files and blobs to a session that commits `present` objects by now. */
export async function growTo(shape: SessionShape, workspace: SessionWorkspace, present: number): Promise<void> {
  const files = shape.objects - present - 2 * shape.blobs
  const file = Buffer.alloc(Math.round(shape.fileBytes / files))
  for (let n = 0; n < files; n++) {
    const dir = join(workspace.dir, 'files', String(Math.floor(n / FILES_PER_DIR)))
    if (n % FILES_PER_DIR === 0) mkdirSync(dir, { recursive: true })
    writeFileSync(join(dir, `${n}.bin`), randomFillSync(file))
  }
  if (shape.blobs === 0) return
  const blobs = await workspace.blobStore()
  const blob = Buffer.alloc(Math.round(shape.blobBytes / shape.blobs))
  for (let n = 0; n < shape.blobs; n++) await blobs.put(randomFillSync(blob), 'application/octet-stream')
}
