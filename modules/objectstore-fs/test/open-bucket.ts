import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { objectStoreConfig, type Logger, silentLogger } from '@nexus/objectstore'
import { openFsBackend, type FsBackend, type WorkerInternals } from '../src/driver.ts'

/** A bucket directory of a test, with room for local files beside it. */
export interface TestBucket {
  bucket: string
  /** Writes a local file and gives its path. */
  file(content: string | Uint8Array): string
  /** A path nothing is at. */
  freshPath(): string
  open(options?: Record<string, unknown>, internals?: WorkerInternals, logger?: Logger): Promise<FsBackend>
  /** Closes what was opened and removes everything. */
  remove(): Promise<void>
}

export function createTestBucket(): TestBucket {
  const root = mkdtempSync(join(tmpdir(), 'nexus-fs-'))
  const bucket = mkdtempSync(join(root, 'bucket-'))
  const opened: FsBackend[] = []
  let files = 0
  const freshPath = (): string => join(root, `local-${files++}`)
  return {
    bucket,
    freshPath,
    file: (content) => {
      const path = freshPath()
      writeFileSync(path, content)
      return path
    },
    open: async (options = {}, internals, logger = silentLogger) => {
      const config = objectStoreConfig({ backend: 'fs', bucket, options })
      const backend = await openFsBackend(config, { logger }, internals)
      opened.push(backend)
      return backend
    },
    remove: async () => {
      await Promise.all(opened.map((backend) => backend.close()))
      rmSync(root, { recursive: true, force: true })
    },
  }
}
