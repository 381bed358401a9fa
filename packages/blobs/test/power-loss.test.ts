import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { BlobStore } from '../src/index.ts'
import { parseMeta } from '../src/layout.ts'
import { RecordedDisk, type DiskImage } from './recorded-disk.ts'
import { scenarioBlobs, sha256Of } from './scenario.ts'

let root: string

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nexus-blob-power-'))
})

afterEach(() => {
  rmSync(root, { recursive: true, force: true })
})

const typeOf = new Map(scenarioBlobs.map(({ data, mediaType }) => [sha256Of(data), mediaType]))

/** What every image must satisfy, given the digests acknowledged before the power went. */
function check(image: DiskImage, acknowledged: ReadonlySet<string>, typesToo: boolean): void {
  const found = new Set<string>()
  for (const [path, data] of image) {
    if (!path.endsWith('.bin')) continue
    const sha256 = basename(path, '.bin')
    if (sha256Of(data) !== sha256) throw new Error(`${path} has wrong content`)
    found.add(sha256)
    const meta = parseMeta(image.get(path.replace(/bin$/, 'meta'))?.toString() ?? '')
    if (meta !== undefined && meta.mediaType !== typeOf.get(sha256)) throw new Error(`${path} has a wrong media type`)
    if (typesToo && meta === undefined) throw new Error(`${path} lost its media type`)
  }
  for (const sha256 of acknowledged) if (!found.has(sha256)) throw new Error(`acknowledged blob ${sha256} is lost`)
}

async function record(fsync: boolean): Promise<RecordedDisk> {
  const disk = new RecordedDisk(root)
  const store = BlobStore.open(join(root, 'a', 'b', 'blobs'), { fs: disk.fs, fsync })
  const put = async ({ data, mediaType, streamed }: (typeof scenarioBlobs)[number]): Promise<void> => {
    const { sha256 } = await store.put(streamed ? Readable.from([data]) : data, mediaType)
    disk.mark(sha256)
  }
  await Promise.all(scenarioBlobs.slice(0, 4).map(put))
  for (const blob of scenarioBlobs.slice(2)) await put(blob)
  await store.flush()
  disk.mark('flushed')
  return disk
}

function visit(
  disk: RecordedDisk,
  look: (image: DiskImage, acknowledged: Set<string>, flushed: boolean) => void,
): number {
  let images = 0
  for (let count = 0; count <= disk.operations.length; count++) {
    const known = disk.operations
      .slice(0, count)
      .flatMap((operation) => (operation.kind === 'mark' ? [operation.note] : []))
    const acknowledged = new Set(known.filter((note) => note !== 'flushed'))
    for (const names of [0, 0.5, 1]) {
      for (const contents of [0, 0.5, 1]) {
        look(disk.after(count, names, contents), acknowledged, known.includes('flushed'))
        images++
      }
    }
  }
  return images
}

describe('a power loss at any moment', () => {
  it('keeps every acknowledged blob and leaves none with wrong content, whatever was not synced', async () => {
    const disk = await record(true)
    expect(visit(disk, check)).toBeGreaterThan(500)
    const image = disk.after(disk.operations.length, 0, 0)
    const into = join(root, 'restored')
    RecordedDisk.restore(image, into)
    expect(await BlobStore.open(join(into, 'a', 'b', 'blobs')).verify()).toMatchObject({ blobs: scenarioBlobs.length })
  })

  it('makes durable what an earlier process had left half done, before it says that it is there', async () => {
    const dir = join(root, 'a', 'b', 'blobs')
    const [blob] = scenarioBlobs
    if (blob === undefined) throw new Error('no scenario')
    const disk = new RecordedDisk(root)
    await BlobStore.open(dir, { fs: disk.fs, fsync: false }).put(blob.data, blob.mediaType)
    const store = BlobStore.open(dir, { fs: disk.fs })
    disk.mark((await store.put(blob.data)).sha256)
    await store.flush()
    disk.mark('flushed')
    let checked = 0
    visit(disk, (image, acknowledged, flushed) => {
      // Before that the store without fsync promises nothing.
      if (acknowledged.size === 0) return
      check(image, acknowledged, flushed)
      checked++
    })
    expect(checked).toBeGreaterThan(10)
  })

  it('would be noticed by this test, were nothing synced', async () => {
    const disk = await record(false)
    expect(() => visit(disk, check)).toThrow(/wrong content|lost/)
  })
})
