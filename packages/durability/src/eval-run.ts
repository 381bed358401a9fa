import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { forEachBounded, keyFault, type ObjectStore } from '@nexus/objectstore'
import { isEngineTempName, type Logger, silentLogger } from '@nexus/host'
import { validateSessionId } from './tree/session-id.ts'

/** How an evaluation run is published. */
export interface PublishEvalRunOptions {
  signal?: AbortSignal | undefined
  logger?: Logger
  /** Uploads in flight, default 8. */
  concurrency?: number
}

/** What was published. */
export interface PublishedEvalRun {
  /** Everything that can be published is in the store and durable. */
  ok: boolean
  objects: number
  bytes: number
  /** Paths that were left out: no plain files, or no possible keys. */
  skipped: string[]
  error?: Error
}

/** Sessions of the run are kept by their own snapshots. */
const LEFT_OUT = '_sessions'

/** See the package's `publishEvalRun`. */
export async function publishFiles(
  store: ObjectStore,
  dir: string,
  runId: string,
  options: PublishEvalRunOptions = {},
): Promise<PublishedEvalRun> {
  const { signal, logger = silentLogger, concurrency = 8 } = options
  validateSessionId(runId)
  const published: PublishedEvalRun = { ok: false, objects: 0, bytes: 0, skipped: [] }
  try {
    const files = await collect(dir, `eval/${runId}`, published.skipped)
    await forEachBounded(
      files,
      concurrency,
      async ({ key, path, sizeBytes }, _index, each) => {
        await store.put(key, path, { signal: each })
        published.objects += 1
        published.bytes += sizeBytes
      },
      signal,
    )
    await store.flush({ signal })
    published.ok = true
  } catch (error) {
    signal?.throwIfAborted()
    published.error = error instanceof Error ? error : new NexusError('INTERNAL', String(error))
    logger.warn({ err: error, run_id: runId, dir }, 'the evaluation run is not published as a whole; publish it again')
  }
  if (published.skipped.length > 0) {
    logger.warn({ run_id: runId, skipped: published.skipped }, 'some files of the evaluation run can not be published')
  }
  return published
}

interface RunFile {
  key: string
  path: string
  sizeBytes: number
}

async function collect(dir: string, prefix: string, skipped: string[]): Promise<RunFile[]> {
  const files: RunFile[] = []
  const pending = ['']
  for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
    for (const entry of await readdir(join(dir, at), { withFileTypes: true })) {
      const below = at === '' ? entry.name : `${at}/${entry.name}`
      if (below === LEFT_OUT || isEngineTempName(entry.name)) continue
      const key = `${prefix}/${below}`
      if (entry.isDirectory()) pending.push(below)
      else if (!entry.isFile() || keyFault(key) !== undefined) skipped.push(below)
      else files.push({ key, path: join(dir, below), sizeBytes: (await lstat(join(dir, below))).size })
    }
  }
  return files
}
