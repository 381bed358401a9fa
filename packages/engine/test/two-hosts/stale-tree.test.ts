import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { endProcesses } from './host-process.ts'
import { TwoHosts } from './two-hosts.ts'

let lab: TwoHosts

beforeEach(() => {
  lab = new TwoHosts()
})

afterEach(() => lab.close())
afterAll(endProcesses)

const CONVERSATION = 'context/conversation.jsonl'

/** B, which never saw the session, resumes it, adds a turn and stops. */
async function takenOverByB(content = 'two of b'): Promise<void> {
  await lab.b.boot()
  await lab.b.input(content)
  await lab.b.stop()
}

describe('a warm host that another one has overtaken', () => {
  it.each(['killed', 'stopped'])(
    'sets its tree aside and resumes what the other committed (%s before)',
    async (end) => {
      const { a } = lab
      await a.boot()
      await a.input('one')
      const { generation: before } = lab.manifest
      await (end === 'killed' ? a.kill() : a.stop())
      await takenOverByB()
      const { generation: theirs } = lab.manifest

      const view = await a.boot()
      expect(view).toMatchObject({ history: ['one', 'two of b'], rows: ['one', 'two of b'] })
      const [keptAt = ''] = a.setAside()
      expect(a.read(CONVERSATION, keptAt)).toBe('one\n')
      expect(a.seen('session.local.stale')).toMatchObject([
        {
          local_generation: end === 'killed' ? before : before + 1,
          remote_generation: theirs,
          forked: false,
          kept_at: keptAt,
        },
      ])
      await a.input('three')
      expect(lab.manifest.generation).toBeGreaterThan(theirs)
      expect(await lab.resumedElsewhere()).toMatchObject({
        history: ['one', 'two of b', 'three'],
        rows: ['one', 'two of b', 'three'],
      })
    },
  )

  it('calls it a fork when it has a turn that the store never got, and keeps that turn', async () => {
    const { a } = lab
    await a.boot()
    await a.input('one')
    await a.dieAt('snapshot:staged', 'two of a')
    await takenOverByB()

    const view = await a.boot()
    expect(view).toMatchObject({ history: ['one', 'two of b'], rows: ['one', 'two of b'] })
    expect(a.seen('session.local.stale')).toMatchObject([{ forked: true, kept_at: a.setAside()[0] }])
    expect(a.read(CONVERSATION, a.setAside()[0])).toBe('one\ntwo of a\n')
  })

  it('boots not at all under refuse, touching nothing, and as usual when that is lifted', async () => {
    const { a } = lab
    await a.boot()
    await a.input('one')
    await a.kill()
    await takenOverByB()
    const stored = lab.objects()
    await expect(a.boot({ stale_local: 'refuse' })).rejects.toMatchObject({
      name: 'StaleLocalTreeError',
      code: 'PRECONDITION',
      fields: { sessionId: 's1', localGeneration: 1, remoteGeneration: lab.manifest.generation, forked: false },
    })
    expect(lab.objects()).toEqual(stored)
    expect(a.setAside()).toEqual([])
    expect(a.read(CONVERSATION)).toBe('one\n')
    expect(await a.boot()).toMatchObject({ history: ['one', 'two of b'] })
  })

  it('goes on with its own tree under keep, says so, and hides what the other committed', async () => {
    const { a } = lab
    await a.boot()
    await a.input('one')
    await a.kill()
    await takenOverByB()
    expect(await a.boot({ stale_local: 'keep' })).toMatchObject({ history: ['one'] })
    expect(a.logged('error')).toEqual([expect.stringContaining('older than the store and is kept')])
    await a.input('two of a')
    expect(a.seen('session.owner.lost')).toEqual([])
    expect(await lab.resumedElsewhere()).toMatchObject({ history: ['one', 'two of a'], rows: ['one', 'two of a'] })
  })

  it('makes the other one the loser when that is still running', async () => {
    const { a, b } = lab
    await a.boot()
    await a.input('one')
    await a.kill()
    await b.boot()
    await b.input('two of b')

    expect(await a.boot()).toMatchObject({ history: ['one', 'two of b'] })
    await a.input('three of a')
    const stored = lab.objects()
    await b.input('three of b')
    expect(b.seen('session.owner.lost')).toHaveLength(1)
    expect(lab.objects()).toEqual(stored)
    expect(await lab.resumedElsewhere()).toMatchObject({ history: ['one', 'two of b', 'three of a'] })
  })
})

describe('a warm host that nobody has overtaken', () => {
  it('goes on with its tree, half a turn and all, and fetches nothing', async () => {
    const { a } = lab
    await a.boot()
    await a.input('one')
    await a.kill()
    a.write('files/half-done.txt', 'of a turn that never ended')
    await a.process.tell('faults', { rules: [{ op: 'hydrate', how: 'refuse' }] })
    expect(await a.boot()).toMatchObject({ history: ['one'] })
    expect(a.read('files/half-done.txt')).toBe('of a turn that never ended')
    expect(a.setAside()).toEqual([])
    expect(a.seen('session.local.stale')).toEqual([])
    await a.input('two')
    expect(await lab.resumedElsewhere()).toMatchObject({ history: ['one', 'two'], rows: ['one', 'two'] })
  })
})
