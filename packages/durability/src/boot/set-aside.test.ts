import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tempDir } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import { noteSetAside, removeSetAside, setAsideTrees } from './set-aside.ts'

function treeAt(root: string, name: string): string {
  const path = join(root, name)
  mkdirSync(join(path, 'files'), { recursive: true })
  return path
}

describe('trees that were set aside', () => {
  it('are listed newest first, with what is known of them', async () => {
    const root = tempDir()
    const older = treeAt(root, '.stale-s1-20260101T000000Z')
    const newer = treeAt(root, '.stale-s1-20260101T000000Z-2')
    const unknown = treeAt(root, '.stale-s2-20260102T000000Z')
    for (const other of ['s1', '.stale-s1', '.stale-a.b-20260101T000000Z', '.hydrating-s1-0123456789abcdef'])
      treeAt(root, other)
    await noteSetAside(older, { setAsideAtMs: 1_000, forked: true })
    await noteSetAside(newer, { setAsideAtMs: 2_000, forked: false })
    expect(setAsideTrees(root)).toEqual([
      { path: newer, sessionId: 's1', note: { setAsideAtMs: 2_000, forked: false } },
      { path: older, sessionId: 's1', note: { setAsideAtMs: 1_000, forked: true } },
      { path: unknown, sessionId: 's2', note: undefined },
    ])
    expect(setAsideTrees(join(root, 'nowhere'))).toEqual([])
  })

  it('count as unknown when their note can not be read', async () => {
    const root = tempDir()
    const path = treeAt(root, '.stale-s1-20260101T000000Z')
    mkdirSync(join(root, '.machine'))
    for (const note of ['', '{', 'null', '{"forked":false}', '{"set_aside_at":"2026-01-01T00:00:00Z","forked":"no"}']) {
      writeFileSync(join(root, '.machine/.stale-s1-20260101T000000Z.json'), note)
      expect(setAsideTrees(root)).toEqual([{ path, sessionId: 's1', note: undefined }])
    }
  })

  it('are removed with their note', async () => {
    const root = tempDir()
    const path = treeAt(root, '.stale-s1-20260101T000000Z')
    await noteSetAside(path, { setAsideAtMs: 1_000, forked: false })
    await removeSetAside(path)
    expect([existsSync(path), readdirSync(join(root, '.machine'))]).toEqual([false, []])
  })
})
