import { writeFileSync } from 'node:fs'
import { BlobStore } from '@nexus/blobs'
import type { LargeFileJob } from './large-file-job.ts'
import { BenchSession } from './bench-session.ts'
import { fsStore } from './fs-store.ts'
import { bootEngine } from './local-engine.ts'
import { createLargeFile, LARGE_FILE } from './large-file.ts'
import { memoryGrowth } from './memory-growth.ts'

// Runs one job and writes by how many bytes the resident memory of this process grew at most while it did.
const job = JSON.parse(process.argv[2] as string) as LargeFileJob
const grownBytes = await { put, snapshot, hydrate }[job.kind](job)
process.stdout.write(JSON.stringify({ grownBytes }))

async function put({ path, dir }: LargeFileJob): Promise<number> {
  const blobs = BlobStore.open(dir, { fsync: false })
  await blobs.put(Buffer.from('warm'), 'text/plain')
  return memoryGrowth(() => blobs.put({ path }, 'application/octet-stream'))
}

async function snapshot({ dir, bucket, sessionIdFile, sizeBytes }: LargeFileJob): Promise<number> {
  const session = await BenchSession.open({ root: dir, core: fsStore(bucket) })
  await session.turn()
  createLargeFile(`${session.engine.session.dir}/${LARGE_FILE}`, sizeBytes)
  const grown = await memoryGrowth(() => session.turn())
  writeFileSync(sessionIdFile, session.engine.sessionId)
  await session.engine.abandon()
  await session.engine.stop()
  return grown
}

async function hydrate({ dir, bucket, sessionId }: LargeFileJob): Promise<number> {
  const engine = { recallSessionId: sessionId }
  let resumed: Awaited<ReturnType<typeof bootEngine>> | undefined
  const grown = await memoryGrowth(async () => {
    resumed = await bootEngine({ root: dir, core: fsStore(bucket), engine })
  })
  await resumed?.abandon()
  await resumed?.stop()
  return grown
}
