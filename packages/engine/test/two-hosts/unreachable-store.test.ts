import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { endProcesses } from './host-process.ts'
import { SESSION, TwoHosts } from './two-hosts.ts'

let lab: TwoHosts

beforeEach(() => {
  lab = new TwoHosts()
})

afterEach(() => lab.close())
afterAll(endProcesses)

type Policy = Parameters<TwoHosts['a']['boot']>[0]

/** A has one turn stored and is gone. */
async function ranOnA(): Promise<void> {
  await lab.a.boot()
  await lab.a.input('one')
  await lab.a.kill()
}

async function takenOverByB(): Promise<void> {
  await lab.b.boot()
  await lab.b.input('two of b')
  await lab.b.stop()
}

/** A boots while nothing of the store answers; then it answers again. */
async function bootedBlind(policy: Policy = {}): Promise<void> {
  const { a } = lab
  await a.suffer({ how: 'refuse' })
  await a.boot(policy)
  expect((await a.look()).status.durability).toMatchObject({ undecided: true, degraded: true })
  await a.heal()
}

describe('a boot while the store can not be reached', () => {
  it('uses the local tree, degraded, and stores it when the store is back and still ours', async () => {
    const { a } = lab
    await ranOnA()
    await bootedBlind()
    expect(a.seen('session.storage.degraded')).toHaveLength(1)
    await a.input('two')
    await a.raises('session.storage.recovered')
    expect((await a.look()).status.durability).toMatchObject({ undecided: false, degraded: false })
    expect(a.seen('session.local.stale')).toEqual([])
    expect(await lab.resumedElsewhere()).toMatchObject({ history: ['one', 'two'], rows: ['one', 'two'] })
  })

  it('asks again before its first commit: a tree that was overtaken is never stored over the other', async () => {
    const { a } = lab
    await ranOnA()
    await takenOverByB()
    const { generation } = lab.manifest
    await bootedBlind()
    await a.input('two of a')
    expect(a.seen('session.local.stale')).toMatchObject([{ remote_generation: generation, forked: true }])
    expect(a.seen('session.owner.lost')).toMatchObject([{ their_generation: generation }])
    expect(lab.manifest.generation).toBe(generation)
    await expect(a.commit()).rejects.toMatchObject({ code: 'FENCED' })
    await a.kill()
    expect(await lab.resumedElsewhere()).toMatchObject({ history: ['one', 'two of b'], rows: ['one', 'two of b'] })

    expect(await a.boot()).toMatchObject({ history: ['one', 'two of b'] })
    expect(a.read('context/conversation.jsonl', a.setAside()[0])).toBe('one\ntwo of a\n')
  })

  it('takes no input under strict before that was asked, and none after the answer was another host', async () => {
    const { a } = lab
    await ranOnA()
    await takenOverByB()
    await a.suffer({ how: 'refuse' })
    await a.boot({ failure_policy: 'strict' })
    expect(await a.input('two of a')).toMatchObject({ accepted: false })
    await a.heal()
    await expect(a.commit()).rejects.toMatchObject({ code: 'FENCED' })
    expect(await a.input('two of a')).toMatchObject({ accepted: false })
    expect((await a.look()).history).toEqual(['one'])
  })

  it('takes input under strict as soon as the answer is that the session is ours', async () => {
    const { a } = lab
    await ranOnA()
    await a.suffer({ how: 'refuse' })
    await a.boot({ failure_policy: 'strict' })
    expect(await a.input('two')).toMatchObject({ accepted: false })
    await a.heal()
    await a.process.tell('skip-time', { ms: 60_000 })
    await a.raises('session.storage.recovered')
    expect(await a.input('two')).toEqual({ accepted: true })
    expect(await lab.resumedElsewhere()).toMatchObject({ history: ['one', 'two'] })
  })

  it('hides the other host under keep, and says so', async () => {
    const { a } = lab
    await ranOnA()
    await takenOverByB()
    await bootedBlind({ stale_local: 'keep' })
    await a.input('two of a')
    expect(a.logged('error')).toEqual([expect.stringContaining('hides what another host committed')])
    expect(await lab.resumedElsewhere()).toMatchObject({ history: ['one', 'two of a'], rows: ['one', 'two of a'] })
  })

  it.each(['degrade', 'strict'] as const)('fails on a machine without the session (%s)', async (failure_policy) => {
    const { b } = lab
    await ranOnA()
    await b.suffer({ how: 'refuse' })
    await expect(b.boot({ failure_policy })).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(existsSync(join(b.sessionsRoot, SESSION))).toBe(false)
  })
})
