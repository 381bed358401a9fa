import { forEachBounded } from '@nexus/objectstore'
import type { Capability, MemoryBackend } from '@nexus/objectstore-memory-test'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { FailurePolicy } from '../src/events/table.ts'
import { judge, judgeFirst, type Seed, type Visited } from './fault-judge.ts'
import { FAULTS, runScenario, seedBucket, type FaultRun, type Scenario } from './fault-points.ts'
import { WriteBackBackend } from './write-back-bucket.ts'

const AT_ONCE = 4

const WORLDS: { name: string; policy: FailurePolicy; absent: readonly Capability[] }[] = [
  { name: 'a backend with every capability, under degrade', policy: 'degrade', absent: [] },
  { name: 'a backend with every capability, under strict', policy: 'strict', absent: [] },
  { name: 'a backend with the five methods alone', policy: 'degrade', absent: ['get', 'putIfAbsent'] },
]

/**
 * Declares the tests that break calls of a run, in every way and in every world: one run for each broken call.
 *
 * @param stride 1 breaks every call; n breaks each n-th, another share of them in each test
 */
export function describeFaultInjection(stride: number): void {
  let seed: Seed & { objects: MemoryBackend['objects'] }
  const visited: Visited = { points: 0, mixed: 0, died: 0, failedBoots: 0, failedStops: 0 }
  let worlds = 0

  beforeAll(async () => {
    seed = await seedBucket()
  })

  afterAll(() => {
    const { points, died, failedBoots, failedStops, mixed } = visited
    process.stdout.write(
      `fault injection: ${points} points visited; ${died} deaths, ${failedBoots} boots and ${failedStops} stops that failed; ` +
        `${mixed} times the mirror layout was overwritten in place, and said so\n`,
    )
  })

  describe.each(WORLDS)('over $name', ({ policy, absent }) => {
    it.each(FAULTS)('a call that %s leaves exactly the last committed turn on an empty host', async (fault) => {
      const broken = await visitCalls({ policy, absent, fault }, seed.objects, (run) =>
        judge(run, seed, absent, visited),
      )
      expect(broken).toEqual([])
    })
  })

  describe('over a bucket that has never seen the session', () => {
    it.each(FAULTS)('a call that %s leaves the first turn whole, or a session that says what it is', async (fault) => {
      const broken = await visitCalls({ policy: 'degrade', absent: [], fault }, new Map(), judgeFirst)
      expect(broken).toEqual([])
    })
  })

  describe('the points that were visited', () => {
    it('are of every kind, the known boundary of the mirror layout among them', () => {
      expect(visited.points).toBeGreaterThan(700 / stride)
      expect(Object.entries(visited).filter(([, count]) => count === 0)).toEqual([])
    })
  })

  /** Counts the calls of a run without a fault, then runs once per chosen call with it. Gives what broke the invariant. */
  async function visitCalls(
    world: Pick<Scenario, 'policy' | 'absent' | 'fault'>,
    objects: MemoryBackend['objects'],
    check: (run: FaultRun) => Promise<void>,
  ): Promise<string[]> {
    const smooth = await runScenario({ ...world, backend: new WriteBackBackend(objects), at: 0, fault: 'fails' })
    expect(smooth).toMatchObject({ bootError: undefined, stopError: undefined, died: false })
    const calls = Array.from({ length: smooth.backend.faults.calls.length }, (_each, index) => index + 1)
    expect(calls.length).toBeGreaterThan(30)
    const share = (worlds += 1) % stride
    const chosen = calls.filter((at) => at % stride === share)
    const broken: string[] = []
    await forEachBounded(chosen, AT_ONCE, async (at) => {
      const run = await runScenario({ ...world, backend: new WriteBackBackend(objects), at })
      visited.points += 1
      try {
        await check(run)
      } catch (error) {
        broken.push(`${world.fault} at ${at}, ${describeCall(run, at)}: ${(error as Error).message}`)
      }
    })
    return broken
  }
}

function describeCall({ backend }: FaultRun, at: number): string {
  const call = backend.faults.calls.find(({ index }) => index === at)
  return call === undefined ? 'never made' : `${call.op} ${call.key}`
}
