import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '@nexus/host'
import { readSession } from '@nexus/independent-reader'
import { expect, it } from 'vitest'
import { SessionCommits } from '../../src/versioned/session-commits.ts'
import { TOMBSTONE_BYTES } from '../../src/versioned/format/tombstone.ts'
import { SessionReclaimStore } from '../../src/versioned/store/write/reclaim-store.ts'
import { TestHost } from '../test-host.ts'
import { bucketOf, SessionFixture } from './session-fixture.ts'

it('a long session is reclaimed behind its commits, by tombstones, and resumed as before', async () => {
  const host = await TestHost.boot({ layoutName: 'versioned' })
  const old = 'x'.repeat(5000)
  await host.turn('t1', () => host.write('files/old.txt', old))
  for (let turn = 2; turn < 97; turn++) {
    await host.turn(`t${turn}`)
    if (turn === 90) await host.clock.advance(8 * 86_400_000)
  }
  await host.stop()
  const { objects } = host.backend
  const commits = [...objects].filter(([key]) => key.startsWith('sessions/s1.v/commits/'))
  const buried = commits
    .filter(([, { bytes }]) => bytes.length === TOMBSTONE_BYTES)
    .map(([key]) => Number(key.slice(-3)))
  // Each number stays, and those that go are the lowest: all but what the commit 64 below the head takes something from.
  expect(commits).toHaveLength(98)
  expect(buried.length).toBeGreaterThan(20)
  expect(buried.toSorted((a, b) => a - b)).toEqual(buried.map((_, index) => index + 1))
  expect(buried.length).toBeLessThan(96 - 64)
  const second = await TestHost.boot({ layoutName: 'versioned', backend: host.backend })
  expect(readFileSync(join(second.dir, 'files/turn.txt'), 'utf8')).toBe('t96')
  expect(readFileSync(join(second.dir, 'files/old.txt'), 'utf8')).toBe(old)
  await second.stop()
})

it('a session of few kept generations is reclaimed by number, however young, and says until when it is kept', async () => {
  const keep = { generations: 2, days: 365, atMost: 2 }
  const host = await TestHost.boot({ layoutName: 'versioned', keep, ttlMs: 86_400_000 })
  for (let turn = 1; turn < 97; turn++) await host.turn(`t${turn}`)
  await host.stop()
  const commits = [...host.backend.objects].filter(([key]) => key.startsWith('sessions/s1.v/commits/'))
  expect(commits.filter(([, { bytes }]) => bytes.length === TOMBSTONE_BYTES).length).toBeGreaterThan(20)
  const { header } = (await readSession(bucketOf(host.backend), 's1')) ?? {}
  expect(Date.parse(header?.['expires_at'] as string)).toBe(Date.parse(header?.['completed_at'] as string) + 86_400_000)
})

it('a listing that broke off is done again, and no number is taken for a commit that was never made', async () => {
  const session = new SessionFixture()
  for (let turn = 1; turn <= 3; turn++) {
    session.write('files/turn.txt', `t${turn}`)
    await session.commit()
  }
  const { faults } = session.backend
  const store = new SessionReclaimStore(new SessionCommits(session.objects), session.objects, { clock: systemClock })
  faults.failWhen(({ op }) => op === 'list')
  await expect(store.unburied(3)).rejects.toMatchObject({ op: 'objectstore.list' })
  faults.heal()
  expect(await store.unburied(3)).toEqual([1, 2])
})
