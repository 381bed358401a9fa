import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { endProcesses } from './host-process.ts'
import { TwoHosts } from './two-hosts.ts'

let lab: TwoHosts

beforeEach(() => {
  lab = new TwoHosts()
})

afterEach(() => lab.close())
afterAll(endProcesses)

describe('a machine that went down without a stop', () => {
  it('takes its tree for torn: sets it aside and restores what was committed', async () => {
    const { a } = lab
    await a.boot()
    await a.input('one', 'two')
    await a.kill()
    a.write('context/conversation.jsonl', 'one\n\0\0\0')
    a.reboot()
    expect(await a.boot()).toMatchObject({ history: ['one', 'two'], rows: ['one', 'two'] })
    expect(a.seen('session.local.stale')).toMatchObject([
      { local_generation: 2, remote_generation: 2, forked: false, kept_at: a.setAside()[0] },
    ])
    expect(a.read('context/conversation.jsonl', a.setAside()[0])).toBe('one\n\0\0\0')
    await a.input('three')
    expect(await lab.resumedElsewhere()).toMatchObject({ history: ['one', 'two', 'three'] })
  })

  it('keeps a tree with turns that the store never got, says so, and stores them', async () => {
    const { a } = lab
    await a.boot()
    await a.input('one')
    await a.dieAt('snapshot:before-manifest', 'two')
    a.reboot()
    expect(await a.boot()).toMatchObject({ history: ['one', 'two'], rows: ['one', 'two'] })
    expect(a.setAside()).toEqual([])
    expect(a.logged('error')).toEqual([expect.stringContaining('holds turns that the store never got')])
    await a.input('three')
    expect(await lab.resumedElsewhere()).toMatchObject({
      history: ['one', 'two', 'three'],
      rows: ['one', 'two', 'three'],
    })
  })

  it('finds that another one has overtaken it all the same', async () => {
    const { a, b } = lab
    await a.boot()
    await a.input('one')
    await a.kill()
    await b.boot()
    await b.input('two of b')
    await b.stop()
    a.reboot()
    expect(await a.boot()).toMatchObject({ history: ['one', 'two of b'] })
    expect(a.seen('session.local.stale')).toMatchObject([{ local_generation: 1, forked: false }])
  })

  it('and can not reach the store works on, but never stores what may be torn', async () => {
    const { a } = lab
    await a.boot()
    await a.input('one')
    await a.kill()
    a.reboot()
    await a.suffer({ how: 'refuse' })
    expect(await a.boot({ failure_policy: 'strict' })).toMatchObject({ history: ['one'] })
    await a.heal()
    const stored = lab.objects()
    await expect(a.commit()).rejects.toMatchObject({ code: 'PRECONDITION' })
    expect(await a.input('two')).toMatchObject({ accepted: false })
    await a.kill()
    expect({ ...lab.objects(), ...stored }).toEqual(lab.objects())
    expect(await a.boot()).toMatchObject({ history: ['one'] })
    expect(a.setAside()).toHaveLength(1)
  })
})

describe('a machine that was rebooted after a clean stop', () => {
  it('goes on with its tree and fetches nothing', async () => {
    const { a } = lab
    await a.boot()
    await a.input('one')
    await a.stop()
    a.reboot()
    await a.suffer({ op: 'hydrate', how: 'refuse' }, { op: 'get', key: 'context/', how: 'refuse' })
    expect(await a.boot()).toMatchObject({ history: ['one'] })
    expect(a.setAside()).toEqual([])
    await a.input('two')
    expect(await lab.resumedElsewhere()).toMatchObject({ history: ['one', 'two'] })
  })
})
