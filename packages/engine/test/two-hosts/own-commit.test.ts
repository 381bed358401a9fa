import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { endProcesses } from './host-process.ts'
import { TwoHosts } from './two-hosts.ts'

let lab: TwoHosts

beforeEach(() => {
  lab = new TwoHosts()
})

afterEach(() => lab.close())
afterAll(endProcesses)

const MANIFEST = '.manifest/'
const DATABASE = 'plugins/test.scribe/store.db'

describe('a commit whose answer was lost', () => {
  it('is known for ours by the run that made it, which goes on and reports one outage', async () => {
    const { a } = lab
    await a.boot()
    await a.input('one')
    await a.suffer({ op: 'put', key: MANIFEST, how: 'lose-answer', times: 1 })
    await a.input('two')
    const { generation } = lab.manifest
    expect(generation).toBe(2)
    expect((await a.look()).status.durability).toMatchObject({ degraded: true, generation: 1 })
    await a.input('three')
    expect(lab.manifest.generation).toBeGreaterThan(generation)
    await a.raises('session.storage.recovered')
    expect(a.seen('session.storage.degraded')).toHaveLength(1)
    expect(a.seen('session.owner.lost')).toEqual([])
    expect(await lab.resumedElsewhere()).toMatchObject({ history: ['one', 'two', 'three'] })
  })

  it('is known for ours by the next run on that machine, which keeps its tree', async () => {
    const { a } = lab
    await a.boot()
    await a.input('one')
    await a.suffer({ op: 'put', key: MANIFEST, how: 'lose-answer', times: 1 }, { how: 'refuse' })
    await a.input('two')
    expect(lab.manifest.generation).toBe(1)
    await a.suffer({ op: 'put', key: MANIFEST, how: 'lose-answer' })
    await expect(a.commit()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    const { generation } = lab.manifest
    expect(generation).toBeGreaterThan(1)
    await a.kill()

    expect(await a.boot()).toMatchObject({ history: ['one', 'two'], status: { durability: { generation } } })
    expect(a.setAside()).toEqual([])
    await a.input('three')
    expect(a.seen('session.owner.lost')).toEqual([])
    expect(await lab.resumedElsewhere()).toMatchObject({
      history: ['one', 'two', 'three'],
      rows: ['one', 'two', 'three'],
    })
  })

  it('belongs to the host that resumes from it, and the one that made it is then overtaken', async () => {
    const { a, b } = lab
    await a.boot()
    await a.input('one')
    await a.suffer({ op: 'put', key: MANIFEST, how: 'lose-answer' })
    await a.input('two')
    await a.kill()
    expect(await b.boot()).toMatchObject({ history: ['one', 'two'], rows: ['one', 'two'] })
    await b.input('three')
    await b.stop()
    expect(await a.boot()).toMatchObject({ history: ['one', 'two', 'three'] })
    expect(a.seen('session.local.stale')).toHaveLength(1)
  })
})

describe('a SIGKILL around the put of the manifest', () => {
  it('between the note on disk and the put leaves the turn before; the machine itself keeps its tree', async () => {
    const { a, b } = lab
    await a.boot()
    await a.input('one')
    await a.dieAt('snapshot:before-manifest', 'two')
    expect(lab.manifest.generation).toBe(1)

    expect(await a.boot()).toMatchObject({ history: ['one', 'two'], rows: ['one', 'two'] })
    expect(a.setAside()).toEqual([])
    await a.input('three')
    await a.kill()
    expect(await b.boot()).toMatchObject({ history: ['one', 'two', 'three'], rows: ['one', 'two', 'three'] })
  })

  it('leaves a fresh host the turn before, and tells which objects were overwritten by the dead one', async () => {
    const { a, b } = lab
    await a.boot()
    await a.input('one')
    await a.dieAt('snapshot:before-manifest', 'two')
    const view = await b.boot({ on_mixed: 'warn' })
    expect(view.history).toEqual(['one'])
    const [mixed] = b.seen('session.hydrate.mixed')
    expect(mixed).toMatchObject({ generation: 1 })
    // The limit of a layout that overwrites in place: what is named here is of the later turn, and nothing else is.
    expect(mixed?.['paths']).toContain(DATABASE)
    expect(mixed?.['paths']).not.toContain('context/conversation.jsonl')
    expect(view.rows).toEqual(['one', 'two'])
    await b.input('three')
    expect(lab.manifest.mixed_from).toMatchObject({ generation: 1, paths: mixed?.['paths'] })
  })

  it('after the put and before its answer leaves the turn to everybody', async () => {
    const { a, b } = lab
    await a.boot()
    await a.input('one')
    await a.dieAt('snapshot:manifest-put', 'two')
    expect(lab.manifest.generation).toBe(2)
    expect(await a.boot()).toMatchObject({ history: ['one', 'two'] })
    expect(a.setAside()).toEqual([])
    await a.kill()
    expect(await b.boot()).toMatchObject({ history: ['one', 'two'], rows: ['one', 'two'] })
    expect(b.seen('session.hydrate.mixed')).toEqual([])
  })
})
