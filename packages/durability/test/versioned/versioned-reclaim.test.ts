import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { TOMBSTONE_BYTES } from '../../src/versioned/format/tombstone.ts'
import { TestHost } from '../test-host.ts'

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
