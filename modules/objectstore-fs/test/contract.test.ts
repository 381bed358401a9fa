import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { describeBackendContract } from '@nexus/objectstore-contract'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { openFsBackend, type FsBackend } from '../src/driver.ts'

const bucket = mkdtempSync(join(tmpdir(), 'nexus-fs-contract-'))
const others = mkdtempSync(join(tmpdir(), 'nexus-fs-contract-others-'))
let cases = 0

function openIn(directory: string, prefix = '', options: Record<string, unknown> = {}): Promise<FsBackend> {
  const config = objectStoreConfig({ backend: 'fs', bucket: directory, prefix, options })
  return openFsBackend(config, { logger: silentLogger })
}

const open = (prefix: string): Promise<FsBackend> => openIn(bucket, prefix)

function emptyBucket(): void {
  mkdirSync(bucket, { recursive: true })
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
  rmSync(others, { recursive: true })
})

describeBackendContract(() => open(''), {
  describe,
  it,
  title: 'fs backend',
  destroy: emptyBucket,
  outOfProcess: true,
  configured({ prefix = '', options = {} }, caseId) {
    mkdirSync(join(others, caseId), { recursive: true })
    return openIn(join(others, caseId), prefix, options)
  },
  missingBucket: () => openIn(join(others, 'never-made')),
  removeBucket: () => rmSync(bucket, { recursive: true }),
})

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
