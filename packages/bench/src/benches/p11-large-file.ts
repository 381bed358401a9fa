import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Bench } from '../bench.ts'
import { createLargeFile } from '../large-file.ts'
import type { LargeFileJob } from '../large-file-job.ts'
import { oursAtMost, type Row } from '../row.ts'

const MIB = 1024 * 1024
const LIMIT_MIB = 64
/** The file itself, its blob, its session, the store, the hydrated session. */
const COPIES = 5

/** By how much the memory of a process grows that handles one large file, each time a process of its own. */
export const largeFileBench: Bench = {
  id: 'P11',
  title: 'memory for a single large file',
  async run({ scratch, quick }) {
    const sizeBytes = (quick ? 256 : 1024) * MIB
    const home = scratch.memoryDir('p11', COPIES * sizeBytes)
    const inHome = (name: string): string => join(home, name)
    createLargeFile(inHome('large.bin'), sizeBytes)
    const job = {
      sizeBytes,
      path: inHome('large.bin'),
      bucket: scratch.memoryDir('p11-bucket', 0),
      sessionIdFile: inHome('session-id'),
    }
    const run = (kind: LargeFileJob['kind']): Row => {
      const sessionId = existsSync(job.sessionIdFile) ? readFileSync(job.sessionIdFile, 'utf8') : ''
      const grownBytes = runChild({ ...job, kind, dir: scratch.memoryDir(`p11-${kind}`, 0), sessionId })
      return {
        id: 'P11',
        what: `${WHAT[kind]} of ${sizeBytes / MIB} MiB, growth of RSS`,
        unit: 'MiB',
        ours: grownBytes / MIB,
        goals: [oursAtMost(LIMIT_MIB)],
      }
    }
    return [run('put'), run('snapshot'), run('hydrate')]
  },
}

const WHAT: Record<LargeFileJob['kind'], string> = {
  put: 'blob put',
  snapshot: 'turn snapshot to fs',
  hydrate: 'hydration from fs',
}

function runChild(job: LargeFileJob): number {
  const script = new URL(`./large-file-child${extname(import.meta.url)}`, import.meta.url)
  const output = execFileSync(process.execPath, [fileURLToPath(script), JSON.stringify(job)], { encoding: 'utf8' })
  return (JSON.parse(output) as { grownBytes: number }).grownBytes
}
