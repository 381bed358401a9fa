import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { endProcesses } from './host-process.ts'
import { TwoHosts } from './two-hosts.ts'

let lab: TwoHosts

beforeEach(() => {
  lab = new TwoHosts()
})

afterEach(() => lab.close())
afterAll(endProcesses)

type Policy = Parameters<TwoHosts['a']['boot']>[0]

/** A has one turn stored and is frozen; B adds a turn and, unless it is to live on, stops; A goes on. */
async function overtakenWhileFrozen(policy: Policy = {}, { stop = true } = {}): Promise<void> {
  const { a, b } = lab
  await a.boot(policy)
  await a.input('one')
  await a.process.freeze()
  await b.boot()
  await b.input('two of b')
  if (stop) await b.stop()
  a.process.thaw()
}

describe('a host that was frozen while another one committed', () => {
  it('says so before it stores anything, and has ended: it stores nothing and takes no input any more', async () => {
    const { a } = lab
    await overtakenWhileFrozen()
    const stored = lab.objects()
    const { generation, instance_id: theirInstance } = lab.manifest
    expect(await a.input('two of a')).toEqual({ accepted: true })
    expect(a.seen('session.owner.lost')).toMatchObject([
      { our_generation: 1, their_generation: generation, their_instance_id: theirInstance },
    ])
    const reason = expect.stringContaining(theirInstance) as string
    expect(await a.input('three of a')).toEqual({ accepted: false, reason })
    await expect(a.commit()).rejects.toMatchObject({ code: 'FENCED' })

    const view = await a.look()
    expect(view.history).toEqual(['one', 'two of a'])
    expect(view.status).toMatchObject({ phase: 'lost', lost: reason })
    expect(view.status.durability).toMatchObject({ lost: true, degraded: true, turnsBlocked: true })
    expect(a.seen('session.owner.lost')).toHaveLength(1)
    expect(a.seen('session.storage.degraded')).toHaveLength(1)
    await a.process.tell('skip-time', { ms: 120_000 })
    expect(a.seen('session.storage.recovered')).toEqual([])
    await a.stop()
    expect(lab.objects()).toEqual(stored)

    expect(await a.boot()).toMatchObject({ history: ['one', 'two of b'], rows: ['one', 'two of b'] })
    expect(a.seen('session.local.stale')).toMatchObject([{ forked: true }])
    expect(a.read('context/conversation.jsonl', a.setAside()[0])).toBe('one\ntwo of a\n')
  })

  it('refuses input under strict from then on, naming who has the session, and fails to stop', async () => {
    const { a } = lab
    await overtakenWhileFrozen({ failure_policy: 'strict' })
    const stored = lab.objects()
    const { instance_id: theirInstance } = lab.manifest
    expect(await a.input('two of a')).toEqual({ accepted: true })
    expect(await a.input('three of a')).toEqual({
      accepted: false,
      reason: expect.stringContaining(theirInstance) as unknown,
    })
    expect(a.seen('core.error')).toMatchObject([{ fatal: false, retryable: false }])
    expect((await a.look()).history).toEqual(['one', 'two of a'])
    await expect(a.stop()).rejects.toMatchObject({ code: 'FENCED' })
    expect(lab.objects()).toEqual(stored)
  })

  it('overwrites where on_lost says so, and then the other one has lost', async () => {
    const { a, b } = lab
    await overtakenWhileFrozen({ on_lost: 'overwrite' }, { stop: false })
    const { generation } = lab.manifest
    await a.input('two of a')
    expect(a.seen('session.owner.lost')).toHaveLength(1)
    expect(lab.manifest.generation).toBeGreaterThan(generation)
    expect((await a.look()).status.durability).toMatchObject({ lost: false, degraded: false })
    await b.input('three of b')
    expect(b.seen('session.owner.lost')).toHaveLength(1)
    expect(await lab.resumedElsewhere()).toMatchObject({ history: ['one', 'two of a'], rows: ['one', 'two of a'] })
  })

  it('keeps its session when nobody took it meanwhile', async () => {
    const { a } = lab
    await a.boot()
    await a.input('one')
    await a.process.freeze()
    a.process.thaw()
    await a.input('two')
    expect(a.seen('session.owner.lost')).toEqual([])
    expect(await lab.resumedElsewhere()).toMatchObject({ history: ['one', 'two'] })
  })

  it('between its uploads and its commit puts nothing more, and the other one goes on', async () => {
    const { a, b } = lab
    await a.boot()
    await a.input('one')
    await a.process.tell('hold-at', { failpoint: 'snapshot:before-manifest' })
    const turn = a.input('two of a')
    await a.process.reaches('snapshot:before-manifest')
    await a.process.freeze()
    // What A has overwritten until then is what only another layout could prevent.
    await b.boot({ on_mixed: 'warn' })
    expect(b.seen('session.hydrate.mixed')).toHaveLength(1)
    await b.input('two of b')
    const stored = lab.objects()
    a.process.thaw()
    await a.process.tell('release', {})
    await turn
    expect(lab.objects()).toEqual(stored)
    expect(a.seen('session.owner.lost')).toHaveLength(1)
    await b.input('three of b')
    expect(b.seen('session.owner.lost')).toEqual([])
  })
})
