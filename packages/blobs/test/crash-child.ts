// Runs one scenario in a blob store and dies by SIGKILL when the named failpoint is reached. Prints a line per put that
// resolved, with a synchronous write: what the parent may hold the store to.
import { writeSync } from 'node:fs'
import { Readable } from 'node:stream'
import { BlobStore } from '../src/index.ts'
import { scenarioBlobs } from './scenario.ts'

const [dir = '', failpoint = '', nth = '1'] = process.argv.slice(2)
let left = Number(nth)

const store = BlobStore.open(dir, {
  byteBudget: 150_000,
  failpoint: (name) => {
    if (name === failpoint && --left === 0) process.kill(process.pid, 'SIGKILL')
  },
})

const acknowledge = async (put: Promise<{ sha256: string }>): Promise<void> => {
  writeSync(1, `${(await put).sha256}\n`)
}

for (const { data, mediaType, streamed } of scenarioBlobs) {
  await acknowledge(store.put(streamed ? Readable.from([data.subarray(0, 100), data.subarray(100)]) : data, mediaType))
}
await Promise.all(scenarioBlobs.slice(0, 3).map(({ data }) => acknowledge(store.put(data))))
await store.flush()
writeSync(1, 'sweeping\n')
await store.sweep()
writeSync(1, 'end\n')
