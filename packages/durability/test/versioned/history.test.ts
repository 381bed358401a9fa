import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { readSession } from '@nexus/independent-reader'
import { describe, expect, it } from 'vitest'
import type { CommitStore } from '../../src/versioned/core/commit-store.ts'
import { encodeTombstone } from '../../src/versioned/format/tombstone.ts'
import { diffSessions } from '../../src/versioned/history/diff-sessions.ts'
import { forkSession } from '../../src/versioned/history/fork-session.ts'
import type { HistorySource } from '../../src/versioned/history/history-source.ts'
import { restoreSession } from '../../src/versioned/history/restore-session.ts'
import { sessionHistory } from '../../src/versioned/history/session-history.ts'
import { SessionObjects } from '../../src/versioned/store/session-objects.ts'
import { bucketOf, SessionFixture } from './session-fixture.ts'
import { treeListing } from './tree-listing.ts'

/** The commits of a fixture as far as history asks for them: one of them is the newest. */
function sourceOf({ objects }: SessionFixture | { objects: SessionObjects }, head = 0): HistorySource {
  const commits: CommitStore = {
    list: async () => [],
    hint: async () => (head === 0 ? undefined : head),
    read: async (generation) => {
      const found = await objects.readHead(generation)
      if (found.is !== 'commit') return { is: found.is }
      const { header, headerSha256: digest } = found.head
      const completedAtMs = Date.parse(header.completed_at)
      return {
        is: 'commit',
        commit: { generation, digest, kind: header.kind, instanceId: 'i', nonce: header.nonce, completedAtMs },
      }
    },
  }
  return { objects, commits }
}

async function threeTurns(): Promise<SessionFixture> {
  const session = new SessionFixture()
  session.write('metadata/session.json', '{\n  "id": "s",\n  "turn_count": 1\n}\n')
  session.write('files/large', randomBytes(1_500_000))
  for (let file = 0; file < 60; file++) session.write(`files/${file}`, `content of ${file}`)
  await session.commit()
  session.write('files/7', 'changed')
  rmSync(join(session.dir, 'files/8'))
  symlinkSync('7', join(session.dir, 'files/link'))
  await session.commit()
  session.write('files/large', 'small now')
  await session.commit('shutdown')
  return session
}

describe('the history of a session', () => {
  it('lists its commits, newest first, as far back as they are there', async () => {
    const session = await threeTurns()
    const entries = await sessionHistory(sourceOf(session))
    expect(entries.map(({ generation, kind, totals }) => [generation, kind, totals.files])).toEqual([
      [3, 'shutdown', 61],
      [2, 'turn', 61],
      [1, 'turn', 62],
    ])
    expect(await sessionHistory(sourceOf(session), { limit: 1 })).toHaveLength(1)
    const bytes = encodeTombstone({ sessionId: 's', generation: 1, atMs: 0 })
    session.backend.objects.set('sessions/s.v/commits/00000000000000000/001', { bytes, modTime: new Date() })
    expect(await sessionHistory(sourceOf(session, 3))).toHaveLength(2)
  })

  it('gives back each tree, in a directory that was not there', async () => {
    const session = await threeTurns()
    const to = join(session.root, 'old')
    expect(await restoreSession(sourceOf(session), { generation: 3, to })).toEqual({
      generation: 3,
      files: 61,
      bytes: expect.any(Number),
    })
    expect(treeListing(to)).toEqual(treeListing(session.dir))
    const first = join(session.root, 'first')
    await restoreSession(sourceOf(session), { generation: 1, to: first })
    expect(treeListing(first).find((line) => line.startsWith('files/7 '))).toMatch(/content of 7$/)
    const again = restoreSession(sourceOf(session), { generation: 1, to })
    await expect(again).rejects.toMatchObject({ code: 'PRECONDITION', key: to })
  })

  it('says what is reclaimed, what never was and what is damaged', async () => {
    const session = await threeTurns()
    const pack = [...session.backend.objects.keys()].find((key) => key.includes('/packs/')) ?? ''
    session.backend.objects.delete(pack)
    const to = join(session.root, 'old')
    const restoring = (generation: number): Promise<unknown> => restoreSession(sourceOf(session), { generation, to })
    await expect(restoring(1)).rejects.toMatchObject({ code: 'CORRUPT', key: expect.stringContaining('packs/') })
    await expect(restoring(9)).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('newest is 3'),
    })
    expect(treeListing(session.root).filter((line) => line.startsWith('old'))).toEqual([])
  })
})

describe('a comparison', () => {
  it('names what was added, removed and changed, and reads nothing that both have', async () => {
    const session = await threeTurns()
    const source = sourceOf(session)
    const before = session.backend.faults.calls.length
    const diff = await diffSessions({ source, generation: 1 }, { source, generation: 2 })
    expect(diff).toEqual({ added: ['files/link'], removed: ['files/8'], changed: ['files/7'] })
    expect(session.backend.faults.calls.slice(before).filter(({ key }) => key?.includes('/packs/'))).toEqual([])
    expect(await diffSessions({ source, generation: 3 }, { source, generation: 3 })).toEqual({
      added: [],
      removed: [],
      changed: [],
    })
  })
})

describe('a fork', () => {
  function targetOf(session: SessionFixture): Parameters<typeof forkSession>[2] {
    const place = {
      ...session.objects.place,
      sessionId: 'f',
      root: 'sessions/f.v',
      scratchDir: mkdtempSync(join(session.root, 'x-')),
    }
    const objects = new SessionObjects(place)
    return { context: { ...session.context, objects }, commits: sourceOf({ objects }).commits }
  }

  it('is a session of its own, with its own id, that shares nothing with the other', async () => {
    const session = await threeTurns()
    const target = targetOf(session)
    await forkSession(sourceOf(session), 2, target)
    for (const key of session.backend.objects.keys())
      if (key.startsWith('sessions/s.v/')) session.backend.objects.delete(key)
    const fork = await readSession(bucketOf(session.backend), 'f')
    expect(fork?.header).toMatchObject({ kind: 'fork', generation: 1, forked_from: { session_id: 's', generation: 2 } })
    expect(fork?.files.get('files/7')?.content.toString()).toBe('changed')
    expect(fork?.files.get('files/large')?.content).toHaveLength(1_500_000)
    expect(fork?.links.get('files/link')).toBe('7')
    expect(fork?.files.get('metadata/session.json')?.content.toString()).toBe('{\n  "id": "f",\n  "turn_count": 1\n}\n')
  })

  it('refuses an id that has a commit, and commits nothing of a source that is gone', async () => {
    const session = await threeTurns()
    const target = targetOf(session)
    await forkSession(sourceOf(session), 1, target)
    await expect(forkSession(sourceOf(session), 2, target)).rejects.toMatchObject({ code: 'PRECONDITION', key: 'f' })
    const other = new SessionFixture({ backend: session.backend })
    const fresh = targetOf(other)
    for (const key of session.backend.objects.keys()) {
      if (key.startsWith('sessions/f.v/') || key.includes('s.v/packs/')) session.backend.objects.delete(key)
    }
    await expect(forkSession(sourceOf(session), 1, fresh)).rejects.toMatchObject({ code: 'CORRUPT' })
    expect([...session.backend.objects.keys()].filter((key) => key.includes('f.v/commits'))).toEqual([])
  })
})
