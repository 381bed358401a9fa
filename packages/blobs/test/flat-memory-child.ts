// Puts and reads a large file, and prints by how many MiB the resident memory grew at most.
import { join } from 'node:path'
import { BlobStore } from '../src/index.ts'

const [dir = '', path = ''] = process.argv.slice(2)
const store = BlobStore.open(join(dir, 'blobs'))
await store.put(Buffer.alloc(100_000))
globalThis.gc?.()
const before = process.memoryUsage().rss
let peak = before
const timer = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss)), 5)
const { sha256 } = await store.put({ path })
const { createReadStream } = await import('node:fs')
await store.put(createReadStream(path))
await store.verify(sha256)
for await (const chunk of await store.open(sha256)) void chunk
clearInterval(timer)
process.stdout.write(String((peak - before) / 1024 / 1024))
