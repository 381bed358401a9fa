import { randomBytes } from 'node:crypto'
import { rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { readSession } from '@nexus/independent-reader'
import { describe, expect, it } from 'vitest'
import { forkSession } from '../../src/versioned/change/fork-session.ts'
import { encodeTombstone } from '../../src/versioned/format/tombstone.ts'
import { diffSessions } from '../../src/versioned/history/diff-sessions.ts'
import { restoreSession } from '../../src/versioned/history/restore-session.ts'
import { sessionHistory } from '../../src/versioned/history/session-history.ts'
import { verifyGeneration } from '../../src/versioned/history/verify-generation.ts'
import { bucketOf, SessionFixture } from './session-fixture.ts'
import { treeListing } from './tree-listing.ts'

const storeOf = ({ objects }: SessionFixture): SessionFixture['objects']['place']['store'] => objects.place.store

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
    const store = storeOf(session)
    const entries = await sessionHistory(store, 's')
    expect(entries.map(({ generation, kind, totals }) => [generation, kind, totals?.files])).toEqual([
      [3, 'shutdown', 61],
      [2, 'turn', 61],
      [1, 'turn', 62],
    ])
    expect(await sessionHistory(store, 's', { limit: 1 })).toHaveLength(1)
    const bytes = encodeTombstone({ sessionId: 's', generation: 1, atMs: 0 })
    session.backend.objects.set('sessions/s.v/commits/00000000000000000/001', { bytes, modTime: new Date() })
    expect(await sessionHistory(store, 's')).toHaveLength(2)
  })

  it('gives back each tree, in a directory that was not there', async () => {
    const session = await threeTurns()
    const to = join(session.root, 'old')
    expect(await restoreSession(storeOf(session), 's', { to })).toEqual({
      generation: 3,
      files: 61,
      bytes: expect.any(Number),
      lost: [],
    })
    expect(treeListing(to)).toEqual(treeListing(session.dir))
    const first = join(session.root, 'first')
    await restoreSession(storeOf(session), 's', { generation: 1, to: first })
    expect(treeListing(first).find((line) => line.startsWith('files/7 '))).toMatch(/content of 7$/)
    const again = restoreSession(storeOf(session), 's', { generation: 1, to })
    await expect(again).rejects.toMatchObject({ code: 'PRECONDITION', key: to })
  })

  it('says what is reclaimed, what never was and what is damaged', async () => {
    const session = await threeTurns()
    const pack = [...session.backend.objects.keys()].find((key) => key.includes('/packs/')) ?? ''
    session.backend.objects.delete(pack)
    const to = join(session.root, 'old')
    const restoring = (generation: number): Promise<unknown> =>
      restoreSession(storeOf(session), 's', { generation, to })
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
    const store = storeOf(session)
    const before = session.backend.faults.calls.length
    const diff = await diffSessions(store, { id: 's', generation: 1 }, { id: 's', generation: 2 })
    expect(diff).toMatchObject({ added: ['files/link'], removed: ['files/8'], changed: ['files/7'] })
    expect(session.backend.faults.calls.slice(before).filter(({ key }) => key?.includes('/packs/'))).toEqual([])
    expect(await diffSessions(store, { id: 's' }, { id: 's', generation: 3 })).toMatchObject({
      added: [],
      removed: [],
      changed: [],
    })
  })
})

describe('what the policy lets go', () => {
  it('counts as reclaimed, though it can still be read', async () => {
    const session = new SessionFixture()
    for (let turn = 1; turn <= 70; turn++) {
      session.write('files/turn', `t${turn}`)
      await session.commit()
    }
    const store = storeOf(session)
    const keep = { generations: 2, days: 0, atMost: 2 }
    expect((await sessionHistory(store, 's', { keep })).at(-1)?.generation).toBe(6)
    expect((await sessionHistory(store, 's')).at(-1)?.generation).toBe(1)
    const gone = { code: 'NOT_FOUND', message: expect.stringContaining('was reclaimed') as string }
    const to = join(session.root, 'old')
    await expect(restoreSession(store, 's', { generation: 5, to, keep })).rejects.toMatchObject(gone)
    await expect(forkSession(store, 's', { generation: 5, as: 'f', keep })).rejects.toMatchObject(gone)
    const five = { id: 's', generation: 5 }
    await expect(diffSessions(store, five, { id: 's' }, { keep })).rejects.toMatchObject(gone)
    await expect(verifyGeneration(store, 's', { generation: 5, keep })).rejects.toMatchObject(gone)
    expect(await restoreSession(store, 's', { generation: 6, to, keep })).toMatchObject({ files: 1 })
  }, 20_000)
})

describe('a damaged generation', () => {
  it('names another that is whole, and gives what is left of itself with the list of what is lost', async () => {
    const session = await threeTurns()
    const store = storeOf(session)
    const [key, pack] = [...session.backend.objects].find(([name]) => name.includes('/packs/')) ?? ['', undefined]
    const bytes = Buffer.from(pack?.bytes ?? '')
    bytes[5000] = (bytes[5000] ?? 0) ^ 1
    session.backend.objects.set(key, { bytes, modTime: new Date() })
    const to = join(session.root, 'old')
    const failed = restoreSession(store, 's', { generation: 1, to })
    await expect(failed).rejects.toMatchObject({
      code: 'CORRUPT',
      message: expect.stringContaining('generation 3 does'),
    })
    const damaged = [{ path: 'files/large', why: expect.stringContaining('/packs/'.slice(1)) as string }]
    expect(await verifyGeneration(store, 's', { generation: 2 })).toMatchObject({ files: 61, damaged })
    expect(await verifyGeneration(store, 's')).toMatchObject({ generation: 3, damaged: [] })
    const salvaged = await restoreSession(store, 's', { generation: 1, to, salvage: true })
    expect(salvaged).toMatchObject({ files: 61, lost: damaged })
    expect(treeListing(to).find((line) => line.startsWith('files/7 '))).toMatch(/content of 7$/)
  })

  it('gives what the other pages of its index hold', async () => {
    const session = new SessionFixture()
    for (let file = 0; file < 900; file++) session.write(`files/${String(file).padStart(50, '0')}`, `${file}`)
    const { header, bytes: whole } = await session.commit()
    const commit = 'sessions/s.v/commits/00000000000000000/001'
    const [first, second] = header.index.pages
    expect(header.index.pages.length).toBeGreaterThan(3)
    const bytes = Buffer.from(whole)
    // Pages are the last thing before the footer.
    const pageBytes = header.index.pages.reduce((sum, { length }) => sum + length, 0)
    const at = bytes.length - 32 - pageBytes + (first?.length ?? 0) + 10
    bytes[at] = (bytes[at] ?? 0) ^ 1
    session.backend.objects.set(commit, { bytes, modTime: new Date() })
    const store = storeOf(session)
    const to = join(session.root, 'left')
    await expect(restoreSession(store, 's', { to })).rejects.toMatchObject({ code: 'CORRUPT' })
    const { files, lost } = await restoreSession(store, 's', { to, salvage: true })
    expect(files).toBe(900 - (second?.entries ?? 0))
    expect(lost).toMatchObject([{ path: `${second?.from}…` }])
    expect(await sessionHistory(store, 's')).toMatchObject([{ generation: 1, problem: expect.stringContaining('CRC') }])
  }, 20_000)
})

describe('a fork', () => {
  it('is a session of its own, with its own id, that shares nothing with the other', async () => {
    const session = await threeTurns()
    const forked = await forkSession(storeOf(session), 's', { generation: 2, as: 'f', ttlMs: 1000 })
    expect(forked).toMatchObject({ id: 'f', generation: 1, forkedFrom: { id: 's', generation: 2 }, files: 61 })
    for (const key of session.backend.objects.keys())
      if (key.startsWith('sessions/s.v/')) session.backend.objects.delete(key)
    const fork = await readSession(bucketOf(session.backend), 'f')
    expect(fork?.header).toMatchObject({ kind: 'fork', generation: 1, forked_from: { session_id: 's', generation: 2 } })
    expect(Date.parse(fork?.header['expires_at'] as string)).toBe(
      Date.parse(fork?.header['completed_at'] as string) + 1000,
    )
    expect(fork?.files.get('files/7')?.content.toString()).toBe('changed')
    expect(fork?.files.get('files/large')?.content).toHaveLength(1_500_000)
    expect(fork?.links.get('files/link')).toBe('7')
    expect(fork?.files.get('metadata/session.json')?.content.toString()).toBe('{\n  "id": "f",\n  "turn_count": 1\n}\n')
  })

  it('refuses an id that has a commit, and commits nothing of a source that is gone', async () => {
    const session = await threeTurns()
    const store = storeOf(session)
    await forkSession(store, 's', { generation: 1, as: 'f' })
    const again = forkSession(store, 's', { generation: 2, as: 'f' })
    await expect(again).rejects.toMatchObject({ code: 'PRECONDITION', key: 'f' })
    for (const key of session.backend.objects.keys()) {
      if (key.includes('s.v/packs/')) session.backend.objects.delete(key)
    }
    await expect(forkSession(store, 's', { generation: 1, as: 'g' })).rejects.toMatchObject({ code: 'CORRUPT' })
    expect([...session.backend.objects.keys()].filter((key) => key.includes('g.v/commits'))).toEqual([])
  })

  it('commits nothing when its source is reclaimed before it commits', async () => {
    const session = await threeTurns()
    const { faults, objects } = session.backend
    const bytes = encodeTombstone({ sessionId: 's', generation: 2, atMs: 0 })
    // Its pack is the last thing that is put before the commit.
    faults.failWhen(({ op, key }) => {
      if (op === 'put' && key.includes('g.v/packs/'))
        objects.set('sessions/s.v/commits/00000000000000000/002', { bytes, modTime: new Date() })
      return false
    })
    const forking = forkSession(storeOf(session), 's', { generation: 2, as: 'g' })
    await expect(forking).rejects.toMatchObject({ code: 'NOT_FOUND', message: expect.stringContaining('reclaimed') })
    expect([...objects.keys()].filter((key) => key.includes('g.v/commits'))).toEqual([])
  })

  it('is made once, though the answer to its commit is lost', async () => {
    const session = await threeTurns()
    let lost = 0
    const put = session.backend.putIfAbsent?.bind(session.backend)
    session.backend.putIfAbsent = async (...args) => {
      const created = await put?.(...args)
      if (args[0].includes('f.v/commits') && lost++ === 0) throw new Error('the connection was reset')
      return created
    }
    expect(await forkSession(storeOf(session), 's', { as: 'f' })).toMatchObject({ generation: 1 })
    expect(lost).toBeGreaterThan(1)
  })
})
