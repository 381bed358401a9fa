import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { describeBackendContract } from '@nexus/objectstore-contract'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { openFsBackend, type FsBackend } from '../src/driver.ts'

const bucket = mkdtempSync(join(tmpdir(), 'nexus-fs-contract-'))
let cases = 0

function open(prefix: string): Promise<FsBackend> {
  return openFsBackend(objectStoreConfig({ backend: 'fs', bucket, prefix }), { logger: silentLogger })
}

function emptyBucket(): void {
  for (const name of readdirSync(bucket)) rmSync(join(bucket, name), { recursive: true, force: true })
}

// Backends of one bucket share a worker, so one that stays open spares each case the start of a thread.
let keeper: FsBackend

beforeAll(async () => {
  keeper = await open('')
})

afterAll(async () => {
  await keeper.close()
  rmSync(bucket, { recursive: true })
})

describeBackendContract(() => open(''), { describe, it, title: 'fs backend', destroy: emptyBucket })

describeBackendContract(
  async () => {
    const prefix = `deploy+1/caf\u00e9/${++cases}`
    // Neighbours of the prefix that must never show.
    mkdirSync(join(bucket, `${prefix}-x`), { recursive: true })
    writeFileSync(join(bucket, `${prefix}-x`, 'a'), 'not ours')
    writeFileSync(join(bucket, 'deploy+1', 'b'), 'not ours')
    return open(prefix)
  },
  { describe, it, title: 'fs backend below a prefix', listProbeCount: 50 },
)
