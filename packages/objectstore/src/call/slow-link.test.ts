import { truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { fakeBackend } from '../../test/fake-backend.ts'
import { ManualClock } from '@nexus/host/testing'
import { slowLink, type SlowLinkOptions } from '../../test/slow-link.ts'
import { tempDir } from '../../test/temp-dir.ts'
import { forEachBounded } from '../transfer/pool.ts'
import { ObjectStore } from './object-store.ts'

const KIB = 1024
const MIB = 1024 * KIB
const IN_FLIGHT = 16

describe('limits on a slow link', () => {
  let clock: ManualClock
  let file: string

  beforeEach(() => {
    clock = new ManualClock(0)
    file = join(tempDir(), 'file')
    writeFileSync(file, '')
  })

  /** Moves so many files, 16 at a time as snapshots and resumes do, and gives the codes of what failed. */
  async function move(verb: 'put' | 'get', files: number, link: SlowLinkOptions): Promise<string[]> {
    truncateSync(file, link.sizeBytes)
    const store = new ObjectStore(fakeBackend(slowLink(clock, link)), { name: 'link', clock })
    const failures: string[] = []
    const call = async (): Promise<void> => {
      try {
        if (verb === 'put') await store.put('s/a', file)
        else await store.get('s/a', file, { expected: { bytes: link.sizeBytes } })
      } catch (error) {
        failures.push((error as { message: string }).message)
      }
    }
    const all = forEachBounded(Array.from({ length: files }), IN_FLIGHT, call)
    // No call is without a timer until all have ended.
    do await clock.advance(10_000)
    while (clock.pendingTimers > 0)
    await all
    return failures
  }

  it.each<[string, 'put' | 'get', number, SlowLinkOptions]>([
    ['16 MiB in one file down at 256 KiB/s', 'get', 1, { bytesPerSecond: 256 * KIB, sizeBytes: 16 * MIB }],
    ['16 MiB in 16 files down at 256 KiB/s', 'get', 16, { bytesPerSecond: 256 * KIB, sizeBytes: MIB }],
    ['16 MiB in 16 files down at 128 KiB/s', 'get', 16, { bytesPerSecond: 128 * KIB, sizeBytes: MIB }],
    ['16 MiB in one file up at 256 KiB/s', 'put', 1, { bytesPerSecond: 256 * KIB, sizeBytes: 16 * MIB }],
    ['16 MiB in 16 files up at 256 KiB/s', 'put', 16, { bytesPerSecond: 256 * KIB, sizeBytes: MIB }],
    ['100 MiB in one file down at 12 Mbit/s', 'get', 1, { bytesPerSecond: 1.5e6, sizeBytes: 100 * MIB }],
    ['100 MiB in 16 files up at 12 Mbit/s', 'put', 16, { bytesPerSecond: 1.5e6, sizeBytes: 6.25 * MIB }],
    ['20 files of 10 MiB up at 256 KiB/s', 'put', 20, { bytesPerSecond: 256 * KIB, sizeBytes: 10 * MIB }],
    [
      '64 files of 1 MiB through 4 slots of the driver',
      'get',
      64,
      { bytesPerSecond: 64 * KIB, sizeBytes: MIB, slots: 4 },
    ],
    [
      '16 files that vanish in send buffers at once',
      'put',
      16,
      { bytesPerSecond: 256 * KIB, sizeBytes: MIB, sendBufferBytes: 4 * MIB },
    ],
    [
      '16 large files that enter send buffers in lumps',
      'put',
      16,
      { bytesPerSecond: 256 * KIB, sizeBytes: 12 * MIB, sendBufferBytes: 4 * MIB },
    ],
    [
      '16 downloads whose first attempts break late and begin again',
      'get',
      16,
      { bytesPerSecond: 256 * KIB, sizeBytes: MIB, breaksAfterBytes: 0.9 * MIB },
    ],
  ])('lets pass %s', async (_what, verb, files, link) => {
    expect(await move(verb, files, link)).toEqual([])
  })

  it('does not let a dead link pass for a slow one', async () => {
    const dead = { bytesPerSecond: 0, sizeBytes: MIB }
    expect(await move('get', 2, dead)).toHaveLength(2)
    expect(clock.now()).toBeLessThan(60_000)
  })
})
