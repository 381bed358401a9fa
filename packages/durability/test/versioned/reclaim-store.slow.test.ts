import { systemClock } from '@nexus/host'
import { describe, expect, it } from 'vitest'
import type { CommitStore } from '../../src/versioned/core/commit-store.ts'
import { reclaim } from '../../src/versioned/core/reclaim.ts'
import { SessionReclaimStore } from '../../src/versioned/store/write/reclaim-store.ts'
import { SessionFixture } from './session-fixture.ts'

const KEEP = { generations: 64, ageMs: 0, atMost: 1000 }

/** What reclaim asks of commits besides their objects: the age of each, which counts for nothing here. */
const unaged: CommitStore = {
  list: async () => [],
  read: async () => ({ is: 'missing' }),
  hint: async () => undefined,
}

describe('reclaim over real commits', () => {
  it('keeps a session readable while its files change, and costs tombstones and one listing', async () => {
    const session = new SessionFixture()
    const commits = new SessionReclaimStore(unaged, session.objects, { clock: systemClock })
    for (let file = 0; file < 20; file++) session.write(`files/${file}`, `first content of ${file}`)
    let from: number | undefined
    let listings: string[] = []
    for (let turn = 1; turn <= 160; turn++) {
      session.write(`files/${turn % 20}`, `content of turn ${turn}`)
      // One file is never written again: its payload moves on from commit to commit.
      session.write('files/0', 'never again')
      await session.commit()
      if (turn % 32 !== 0) continue
      const before = session.backend.faults.calls.length
      from =
        (await reclaim(
          commits,
          { generation: turn, digest: '' },
          { policy: KEEP, nowMs: Date.now(), ...(from === undefined ? {} : { from }) },
        )) ?? from
      const ops = session.backend.faults.calls.slice(before).map(({ op, key }) => `${op} ${key?.split('/')[2]}`)
      listings = ops.filter((op) => op.startsWith('list'))
    }
    expect(listings).toEqual(['list packs'])
    const objects = [...session.backend.objects].map(([key, { bytes }]) => [key, bytes.length] as const)
    const buried = objects.filter(([, size]) => size === 56).length
    expect(buried).toBeGreaterThan(30)
    const { files } = await session.read()
    expect(files.size).toBe(20)
    expect(files.get('files/0')?.content.toString()).toBe('never again')
    expect(files.get('files/19')?.content.toString()).toBe('content of turn 159')
    expect(files.get('files/1')?.content.toString()).toBe('content of turn 141')
  })
})
