import { randomBytes } from 'node:crypto'
import { close, fdatasync, open, rename, write } from 'node:fs'
import { promisify } from 'node:util'
import { BlobStore } from '@nexus/blobs'
import cacache from 'cacache'
import type { Bench, BenchContext } from '../bench.ts'
import { alternate, compare, median, ratePerSecond } from '../measure.ts'
import { against, ratioAtLeast, type Row } from '../row.ts'
import { withStall } from '../stall.ts'

/** More than all rounds write without fsync; they do it in memory where they can, to leave the disk's moods out. */
const DISK_BYTES = 1024 * 1024 * 1024
const BLOB_BYTES = 64 * 1024
const MEDIA_TYPE = 'application/octet-stream'
const openFile = promisify<string, string, number>(open)
const writeFile = promisify<number, Buffer, number>(write)
const syncData = promisify(fdatasync)
const closeFile = promisify(close)
const renameFile = promisify(rename)

/** New blobs of 64 KiB, each with bytes of its own. */
export const blobPutBench: Bench = {
  id: 'P9',
  title: 'blob put, 64 KiB',
  async run(context) {
    return [
      await durable(16, context),
      await durable(1, context),
      await undurable(1, 3, context),
      await undurable(8, 1.5, context),
    ]
  },
}

async function durable(concurrency: number, { scratch, quick }: BenchContext): Promise<Row> {
  const count = concurrency === 1 ? (quick ? 20 : 60) : quick ? 64 : 160
  // In use already, as stores mostly are: the warm-up makes its directories.
  const blobs = BlobStore.open(scratch.dir('p9-blobs'))
  const dir = scratch.dir('p9-raw')
  const stalls: number[] = []
  const samples = await alternate(
    {
      ours: () => putBlobs(blobs, { count, concurrency, stalls }),
      raw: () => pooled(count, concurrency, (data) => writeDurably(dir, data)),
    },
    { rounds: quick ? 3 : 5, warmups: quick ? 1 : 2 },
  )
  return {
    id: 'P9',
    what: `durable, ${concurrency} at a time`,
    unit: '/s',
    ...against('write + fdatasync + rename', compare(samples.ours, samples.raw)),
    stallMs: median(stalls),
    goals: [ratioAtLeast(0.8)],
  }
}

async function undurable(concurrency: number, atLeast: number, { scratch, quick }: BenchContext): Promise<Row> {
  const count = quick ? 50 : 200
  const blobs = BlobStore.open(scratch.memoryDir('p9-blobs', DISK_BYTES), { fsync: false })
  const dir = scratch.memoryDir('p9-cacache', DISK_BYTES)
  const stalls: number[] = []
  const samples = await alternate(
    {
      ours: () => putBlobs(blobs, { count, concurrency, stalls }),
      cacache: () => pooled(count, concurrency, (data) => putIntoCacache(dir, data)),
    },
    { rounds: quick ? 3 : 9 },
  )
  return {
    id: 'P9',
    what: `without fsync, ${concurrency} at a time`,
    unit: '/s',
    ...against('cacache', compare(samples.ours, samples.cacache)),
    stallMs: median(stalls),
    goals: [ratioAtLeast(atLeast)],
  }
}

async function putBlobs(
  blobs: BlobStore,
  { count, concurrency, stalls }: { count: number; concurrency: number; stalls: number[] },
): Promise<number> {
  const { value, stallMs } = await withStall(() => pooled(count, concurrency, (data) => blobs.put(data, MEDIA_TYPE)))
  stalls.push(stallMs)
  // What is synced after the fact must not run beside the next contender.
  await blobs.flush()
  return value
}

/** Puts a second, of `count` different blobs that are put so many at a time. */
function pooled(count: number, concurrency: number, put: (data: Buffer) => Promise<unknown>): Promise<number> {
  const blobs = Array.from({ length: count }, () => randomBytes(BLOB_BYTES))
  let next = 0
  const worker = async (): Promise<void> => {
    for (let n = next++; n < count; n = next++) await put(blobs[n] as Buffer)
  }
  return ratePerSecond(count, () => Promise.all(Array.from({ length: concurrency }, worker)))
}

let named = 0

async function putIntoCacache(dir: string, data: Buffer): Promise<void> {
  await cacache.put(dir, `key-${++named}`, data, { algorithms: ['sha256'] })
}

async function writeDurably(dir: string, data: Buffer): Promise<void> {
  const n = ++named
  const fd = await openFile(`${dir}/${n}.new`, 'wx')
  await writeFile(fd, data)
  await syncData(fd)
  await closeFile(fd)
  await renameFile(`${dir}/${n}.new`, `${dir}/${n}`)
}
