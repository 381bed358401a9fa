import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { neverCrosses } from './names.ts'
import { createStagingDir, removeStagingDir, sweepStaging, type StagingDir } from './staging.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nexus-staging-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

describe('a staging directory', () => {
  it('lies beside the sessions, open to its owner only, with a name that never crosses', () => {
    const path = createStagingDir(root, 'snapshot', 'a-b_c')
    expect(existsSync(path)).toBe(true)
    const name = path.slice(root.length + 1)
    expect(name).toMatch(/^\.snapshot-a-b_c-[0-9a-f]{16}$/)
    expect(neverCrosses(name)).toBe(true)
  })

  it('is made below a root that does not exist yet', () => {
    expect(existsSync(createStagingDir(join(root, 'new', 'root'), 'hydrating', 's'))).toBe(true)
  })

  it('is removed with directories that can not be written, and never through a link', async () => {
    const path = createStagingDir(root, 'hydrating', 's')
    const outside = join(root, 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'keep'), '')
    chmodSync(outside, 0o500)
    mkdirSync(join(path, 'd'))
    writeFileSync(join(path, 'd', 'f'), '')
    symlinkSync(outside, join(path, 'd', 'l'))
    chmodSync(join(path, 'd'), 0o500)
    await removeStagingDir(path)
    await removeStagingDir(path)
    expect(existsSync(path)).toBe(false)
    expect(readdirSync(outside)).toEqual(['keep'])
    chmodSync(outside, 0o700)
  })
})

describe('sweepStaging', () => {
  it('removes what nobody alive uses, and nothing that is not a staging directory', async () => {
    const dead = createStagingDir(root, 'snapshot', 'a')
    const alive = createStagingDir(root, 'hydrating', 'b')
    const others = [
      '.stale-a-20260101',
      '.machine',
      'a',
      '.snapshot-a',
      '.snapshot-a.b-0123456789abcdef',
      '.hydrating-x-12',
    ]
    for (const name of others) mkdirSync(join(root, name))
    writeFileSync(join(root, '.snapshot-file-0123456789abcdef'), '')
    const asked: StagingDir[] = []
    const removed = await sweepStaging(root, async (staging) => {
      asked.push(staging)
      return staging.path === alive
    })
    expect(removed).toEqual([dead])
    expect(asked.map(({ kind, sessionId }) => `${kind} ${sessionId}`).toSorted()).toEqual(['hydrating b', 'snapshot a'])
    expect(asked.every(({ changedAtMs }) => Math.abs(Date.now() - changedAtMs) < 60_000)).toBe(true)
    expect(existsSync(dead)).toBe(false)
    expect(existsSync(alive)).toBe(true)
    for (const name of others) expect(existsSync(join(root, name))).toBe(true)
  })

  it('finds nothing under a root that does not exist', async () => {
    expect(await sweepStaging(join(root, 'none'), () => false)).toEqual([])
  })
})
