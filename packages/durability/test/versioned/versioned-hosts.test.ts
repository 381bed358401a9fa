import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { MemoryBackend } from '@nexus/objectstore-memory-test'
import { newDir, until } from '../memory-store.ts'
import { fingerprint, TestHost, type HostOptions } from '../test-host.ts'

const RECORD = 'session.record.jsonl'

async function boot(options: HostOptions = {}): Promise<TestHost> {
  return await TestHost.boot({ layoutName: 'versioned', ...options })
}

function commitsIn({ objects }: MemoryBackend): string[] {
  return [...objects.keys()].filter((key) => key.startsWith('sessions/s1.v/commits/')).toSorted()
}

/** What the calls of some work were. */
async function callsOf({ backend }: TestHost, work: () => Promise<unknown>): Promise<string[]> {
  const before = backend.faults.calls.length
  await work()
  return backend.faults.calls.slice(before).map(({ op }) => op)
}

function turnOf(host: TestHost): string {
  return readFileSync(join(host.dir, 'files/turn.txt'), 'utf8')
}

function treeOf(host: TestHost): Record<string, string> {
  return fingerprint(host.dir, (path) => path === RECORD)
}

describe('a session in the versioned layout', () => {
  it('begins with a claim, and costs one put a turn', async () => {
    const host = await boot()
    expect(host.resolution?.tree).toBe('created')
    expect(commitsIn(host.backend)).toEqual(['sessions/s1.v/commits/00000000000000000/001'])
    await host.turn('t1')
    expect(await callsOf(host, () => host.turn('t2'))).toEqual(['putIfAbsent', 'flush'])
    expect(commitsIn(host.backend)).toHaveLength(3)
    await host.stop()
    expect([...host.backend.objects.keys()].every((key) => key.startsWith('sessions/s1.v/'))).toBe(true)
  })

  it('is resumed byte for byte on another host, which claims it', async () => {
    const first = await boot()
    await first.turn('t1')
    await first.turn('t2', () => first.write('files/deep/down.txt', 'x'.repeat(100_000)))
    await first.stop()
    const tree = treeOf(first)
    const { backend } = first
    const second = new TestHost({ layoutName: 'versioned', backend })
    const before = commitsIn(backend).length
    await second.boot()
    expect(second.resolution?.tree).toBe('hydrated')
    expect(commitsIn(backend)).toHaveLength(before + 1)
    expect(treeOf(second)).toMatchObject({
      'files/turn.txt': tree['files/turn.txt'],
      'files/deep/down.txt': tree['files/deep/down.txt'],
    })
    await second.stop()
  })

  it('never lets its record cross', async () => {
    const first = await boot()
    await first.turn('t1')
    await first.stop()
    const second = await boot({ backend: first.backend })
    const [one, other] = [first, second].map(({ dir }) => readFileSync(join(dir, RECORD), 'utf8'))
    expect(other).not.toBe(one)
    await second.stop()
  })

  it('stops a host that another has claimed from, at its next turn, and stores nothing of it', async () => {
    const first = await boot()
    await first.turn('t1')
    const second = await boot({ backend: first.backend })
    const before = commitsIn(first.backend)
    await first.turn('t2', () => first.write('files/turn.txt', 'of the zombie'))
    expect(first.seen('session.owner.lost')).toHaveLength(1)
    expect(await first.input()).toMatchObject({ vetoed: true })
    expect(commitsIn(first.backend)).toEqual(before)
    await second.turn('t3')
    await second.stop()
    await first.kill()
    const third = await boot({ backend: first.backend })
    expect(turnOf(third)).toBe('t3')
    await third.stop()
  })

  it('sets a tree aside at boot that another host has overtaken', async () => {
    const first = await boot()
    await first.turn('t1')
    await first.stop()
    const second = await boot({ backend: first.backend })
    await second.turn('t2')
    await second.stop()
    const again = await boot({ backend: first.backend, disk: first.disk })
    expect(again.resolution).toMatchObject({
      tree: 'hydrated',
      keptAt: expect.stringContaining('.stale-s1-') as string,
    })
    expect(turnOf(again)).toBe('t2')
    await again.stop()
  })

  it('keeps a tree over which others only claimed', async () => {
    const first = await boot()
    await first.turn('t1')
    await first.stop()
    const second = await boot({ backend: first.backend })
    await second.kill()
    const again = await boot({ backend: first.backend, disk: first.disk })
    expect(again.resolution).toMatchObject({ tree: 'local' })
    await again.turn('t2')
    await again.stop()
  })

  it('does not call a commit its own that a rolled-back tree lacks', async () => {
    const first = await boot()
    await first.turn('t1')
    const copy = join(newDir('copy'), 's1')
    cpSync(first.dir, copy, { recursive: true })
    await first.turn('t2')
    await first.kill()
    rmSync(first.dir, { recursive: true })
    cpSync(copy, first.dir, { recursive: true })
    const again = await boot({ backend: first.backend, disk: first.disk })
    expect(again.resolution?.tree).toBe('hydrated')
    expect(turnOf(again)).toBe('t2')
    await again.stop()
  })

  it.each([true, false])('sends the same bytes again when an answer is lost, its effect too: %s', async (isDone) => {
    const host = await boot()
    await host.turn('t1')
    const before = commitsIn(host.backend).length
    const { faults } = host.backend
    if (isDone) faults.applyThenFail(faults.calls.length + 1)
    else faults.failNth(faults.calls.length + 1)
    await host.turn('t2')
    expect(host.seen('session.snapshot.result').at(-1)).toMatchObject({ ok: false })
    await host.turn('t3')
    expect(host.seen('session.snapshot.result').at(-1)).toMatchObject({ ok: true })
    // What was unresolved landed as it was, and the turn after it in a commit of its own.
    expect(commitsIn(host.backend)).toHaveLength(before + 2)
    expect(host.seen('session.owner.lost')).toEqual([])
    await host.stop()
    const second = await boot({ backend: host.backend })
    expect(turnOf(second)).toBe('t3')
    await second.stop()
  })

  it('goes on from a commit whose answer its process did not live to see', async () => {
    const host = await boot()
    await host.turn('t1')
    const { faults } = host.backend
    faults.applyThenFail(faults.calls.length + 1)
    await host.turn('t2')
    await host.kill()
    faults.heal()
    const again = await boot({ backend: host.backend, disk: host.disk })
    expect(again.resolution?.tree).toBe('local')
    await again.turn('t3')
    await again.stop()
    expect(existsSync(join(again.disk, 'sessions'))).toBe(true)
  })

  it('is created by one of two hosts that begin it at once', async () => {
    const { backend } = new TestHost()
    const one = new TestHost({ layoutName: 'versioned', backend })
    const other = new TestHost({ layoutName: 'versioned', backend })
    await Promise.all([one.boot(), other.boot()])
    // The later one drops its own tree, restores the other's and claims that.
    expect(new Set([one, other].map(({ resolution }) => resolution?.tree))).toEqual(new Set(['created', 'hydrated']))
    expect(commitsIn(backend)).toHaveLength(2)
    expect(readdirSync(join(one.disk, 'sessions')).filter((name) => name.startsWith('.stale-'))).toEqual([])
    await one.kill()
    await other.kill()
  })

  it('is begun unclaimed when ownership is lazy, and claimed by its first turn', async () => {
    const first = await boot()
    await first.turn('t1')
    const second = await boot({ backend: first.backend, claims: 'first-commit' })
    await first.turn('t2')
    await second.turn('t3')
    expect(second.seen('session.owner.lost')).toHaveLength(1)
    await second.kill()
    const third = await boot({ backend: first.backend, claims: 'first-commit' })
    await third.turn('t4')
    await first.turn('t5')
    expect(first.seen('session.owner.lost')).toHaveLength(1)
    await first.kill()
    await third.stop()
  })

  it('judges a tree before its first commit that it booted with while the store was down', async () => {
    const first = await boot()
    await first.turn('t1')
    await first.stop()
    const second = await boot({ backend: first.backend })
    await second.turn('t2')
    await second.stop()
    first.backend.faults.failWhen(() => true)
    const again = await boot({ backend: first.backend, disk: first.disk })
    expect(again.resolution).toMatchObject({ tree: 'local', undecided: expect.anything() as unknown })
    first.backend.faults.heal()
    const before = commitsIn(first.backend)
    await again.turn('t3')
    expect(again.seen('session.owner.lost')).toHaveLength(1)
    expect(commitsIn(first.backend)).toEqual(before)
    await again.kill()
  })

  it.each(['strict', 'degrade'] as const)('is refused where the store has forgotten it, under %s', async (policy) => {
    const first = await boot({ policy })
    await first.turn('t1')
    await first.stop()
    first.backend.objects.clear()
    const refused = new TestHost({ layoutName: 'versioned', backend: first.backend, disk: first.disk, policy })
    await expect(refused.boot()).rejects.toMatchObject({
      code: 'PRECONDITION',
    })
    const anew = await boot({ backend: first.backend, disk: first.disk, policy, acceptEmpty: true })
    expect(turnOf(anew)).toBe('t1')
    await anew.turn('t2')
    await anew.stop()
    const second = await boot({ backend: first.backend })
    expect(turnOf(second)).toBe('t2')
    await second.stop()
  })

  it('owes the turns that only the tree of a killed run has, and stores them without a further one', async () => {
    const host = await boot()
    await host.turn('t1')
    const { faults } = host.backend
    faults.failNth(faults.calls.length + 1)
    await host.turn('t2')
    await host.kill()
    faults.heal()
    const again = await boot({ backend: host.backend, disk: host.disk })
    expect(again.resolution).toMatchObject({ tree: 'local', owesTurns: true })
    await again.clock.advance(2_000)
    await until(() => again.seen('session.snapshot.result').length > 0, 'the owed snapshot')
    expect(again.seen('session.snapshot.result')).toMatchObject([{ trigger: 'retry', ok: true }])
    await again.kill()
    const second = await boot({ backend: host.backend })
    expect(turnOf(second)).toBe('t2')
    await second.stop()
  })

  it('is stored whatever its host and its turns are called', async () => {
    const host = await boot({ host: '/no/name\n' })
    await host.turn('half \ud800 of a pair')
    expect(host.seen('session.snapshot.result')).toMatchObject([{ ok: true }])
    await host.stop()
    const second = await boot({ backend: host.backend })
    expect(second.resolution?.tree).toBe('hydrated')
    await second.stop()
  })

  it('is not begun where the same session lies in the mirror layout', async () => {
    const first = await TestHost.boot()
    await first.turn('t1')
    await first.stop()
    await expect(boot({ backend: first.backend })).rejects.toMatchObject({ code: 'PRECONDITION' })
  })

  it('is not begun in the mirror layout where it lies as a chain', async () => {
    const first = await boot()
    await first.stop()
    await expect(TestHost.boot({ backend: first.backend })).rejects.toMatchObject({ code: 'PRECONDITION' })
  })

  it.each(['get', 'putIfAbsent'] as const)('is refused by a backend without %s', (missing) => {
    expect(() => new TestHost({ layoutName: 'versioned', absent: [missing] })).toThrow(missing)
  })
})
