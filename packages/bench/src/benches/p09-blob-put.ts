import { randomBytes } from 'node:crypto'
import { close, fdatasync, open, rename, write } from 'node:fs'
import { promisify } from 'node:util'
import { BlobStore } from '@nexus/blobs'
import cacache from 'cacache'
import type { Bench, BenchContext } from '../bench.ts'
import { alternate, compare, median, ratePerSecond } from '../measure.ts'
import { against, ratioAtLeast, type Row } from '../row.ts'
import { withStall } from '../stall.ts'

const BLOB_BYTES = 64 * 1024
const MEDIA_TYPE = 'application/octet-stream'
const openFile = promisify<string, string, number>(open)
const writeFile = promisify<number, Buffer, number>(write)
const syncData = promisify(fdatasync)
const closeFile = promisify(close)
const renameFile = promisify(rename)

/** New blobs of 64 KiB, each with bytes of its own, into a store that is new in each round. */
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
  const count = (quick ? 64 : 256) / (concurrency === 1 ? 4 : 1)
  const stalls: number[] = []
  const samples = await alternate(
    {
      ours: () => putBlobs(BlobStore.open(scratch.dir('p9-blobs')), { count, concurrency, stalls }),
      raw: () => {
        const dir = scratch.dir('p9-raw')
        return pooled(count, concurrency, (data, n) => writeDurably(dir, data, n))
      },
    },
    { rounds: quick ? 3 : 9 },
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
  const stalls: number[] = []
  const samples = await alternate(
    {
      ours: () => putBlobs(BlobStore.open(scratch.dir('p9-blobs'), { fsync: false }), { count, concurrency, stalls }),
      cacache: () => {
        const dir = scratch.dir('p9-cacache')
        return pooled(count, concurrency, (data, n) => cacache.put(dir, `key-${n}`, data, { algorithms: ['sha256'] }))
      },
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
  return value
}

/** Puts a second, of `count` different blobs that are put so many at a time. */
function pooled(
  count: number,
  concurrency: number,
  put: (data: Buffer, n: number) => Promise<unknown>,
): Promise<number> {
  const blobs = Array.from({ length: count }, () => randomBytes(BLOB_BYTES))
  let next = 0
  const worker = async (): Promise<void> => {
    for (let n = next++; n < count; n = next++) await put(blobs[n] as Buffer, n)
  }
  return ratePerSecond(count, () => Promise.all(Array.from({ length: concurrency }, worker)))
}

async function writeDurably(dir: string, data: Buffer, n: number): Promise<void> {
  const fd = await openFile(`${dir}/${n}.new`, 'wx')
  await writeFile(fd, data)
  await syncData(fd)
  await closeFile(fd)
  await renameFile(`${dir}/${n}.new`, `${dir}/${n}`)
}
