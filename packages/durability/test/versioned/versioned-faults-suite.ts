import assert from 'node:assert/strict'
import { forEachBounded } from '@nexus/objectstore'
import type { MemoryBackend } from '@nexus/objectstore-memory-test'
import { beforeAll, describe, expect, it } from 'vitest'
import type { FailurePolicy } from '../../src/events/table.ts'
import { FAULTS, type FaultRun, resumeOnEmptyHost, runScenario, seedBucket, type Tree, work } from '../fault-points.ts'
import { TestHost } from '../test-host.ts'
import { WriteBackBackend } from '../write-back-bucket.ts'

const AT_ONCE = 4
const POLICIES: readonly FailurePolicy[] = ['degrade', 'strict']

/**
 * Declares the tests that break calls of a run over the versioned layout, in every way: one run for each broken call.
 *
 * @param stride 1 breaks every call; n breaks each n-th, another share of them in each test
 */
export function describeVersionedFaults(stride: number): void {
  let seed: { objects: MemoryBackend['objects']; tree: Tree }
  let worlds = 0

  beforeAll(async () => {
    seed = await seedBucket('versioned')
  })

  describe.each(POLICIES)('in the versioned layout, under %s', (policy) => {
    it.each(FAULTS)('a call that %s leaves exactly a committed turn, and each acknowledged one', async (fault) => {
      const world = { policy, absent: [], fault, layoutName: 'versioned' as const }
      const smooth = await runScenario({ ...world, backend: new WriteBackBackend(seed.objects), at: 0, fault: 'fails' })
      expect(smooth).toMatchObject({ bootError: undefined, stopError: undefined, died: false })
      const calls = smooth.backend.faults.calls.length
      expect(calls).toBeGreaterThan(12)
      const share = (worlds += 1) % stride
      const broken: string[] = []
      const chosen = Array.from({ length: calls }, (_, index) => index + 1).filter((at) => at % stride === share)
      await forEachBounded(chosen, AT_ONCE, async (at) => {
        const run = await runScenario({ ...world, backend: new WriteBackBackend(seed.objects), at })
        const call = run.backend.faults.calls.find(({ index }) => index === at)
        try {
          await judge(run, seed.tree)
        } catch (error) {
          broken.push(`${fault} at ${at}, ${call?.op} ${call?.key}: ${(error as Error).message}`)
        }
      })
      expect(broken).toEqual([])
    })
  })
}

async function judge(run: FaultRun, seed: Tree): Promise<void> {
  const resumed = await resumeOnEmptyHost(run.backend, [], 'versioned')
  assert.equal(resumed.result.outcome, 'hydrated')
  assert.equal(resumed.result.mixed, undefined)
  const wasStored = run.acknowledged > 0
  const candidates = [...(wasStored ? [] : [seed]), ...run.trees.values(), run.lastTree]
  assert.ok(
    candidates.some((tree) => sameTree(tree, resumed.tree)),
    'the tree is no committed one',
  )
  assert.deepEqual(resumed.rows, 'files/t2.txt' in resumed.tree ? ['t1', 't2'] : ['t1'])
  assert.equal(resumed.types.filter((type) => type === 'agent.turn.end').length, resumed.rows.length)
  if (run.died) await judgeWarmHost(run)
}

/** The same disk again, as after a crash: its tree is the live one, and the next turn is stored. */
async function judgeWarmHost({ host, backend }: FaultRun): Promise<void> {
  const again = await TestHost.boot({ disk: host.disk, backend, layoutName: 'versioned' })
  assert.deepEqual(again.seen('session.local.stale'), [])
  await again.turn('t9', () => work(again, 't9'))
  assert.equal(again.seen('session.snapshot.result').at(-1)?.['ok'], true)
  assert.deepEqual(again.seen('session.owner.lost'), [])
  await again.kill()
  const { rows } = await resumeOnEmptyHost(backend, [], 'versioned')
  assert.ok(rows.includes('t9'))
}

function sameTree(one: Tree, other: Tree): boolean {
  try {
    assert.deepEqual(one, other)
    return true
  } catch {
    return false
  }
}
