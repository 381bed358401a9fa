import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { endProcesses } from './host-process.ts'
import { TwoHosts } from './two-hosts.ts'

const VERSIONED = { layout: 'versioned' } as const

let lab: TwoHosts

beforeEach(() => {
  lab = new TwoHosts()
})

afterEach(() => lab.close())
afterAll(endProcesses)

describe('two hosts in the versioned layout', () => {
  it('take the session from each other, and lose no turn that was stored', async () => {
    const { a, b } = lab
    await a.boot(VERSIONED)
    await a.input('one')
    expect(await b.boot(VERSIONED)).toMatchObject({ history: ['one'], rows: ['one'] })
    // Whoever booted later has it: the next turn of the other is stored nowhere, and ends its run.
    await a.input('of the zombie')
    expect(await a.raises('session.owner.lost')).toMatchObject({ session_id: 's1' })
    expect(await a.input('refused')).toMatchObject({ accepted: false })
    await b.input('two')
    await b.stop()
    await a.kill()
    const view = await a.boot(VERSIONED)
    expect(view).toMatchObject({ history: ['one', 'two'], rows: ['one', 'two'] })
    expect(a.setAside()).toHaveLength(1)
  })

  it('go on from a kill in the middle of a commit', async () => {
    const { a, b } = lab
    await a.boot(VERSIONED)
    await a.input('one')
    await a.dieAt('snapshot:before-commit', 'two')
    const warm = await a.boot(VERSIONED)
    expect(warm.history[0]).toBe('one')
    await a.input('three')
    await a.stop()
    const { history } = await b.boot(VERSIONED)
    expect(history[0]).toBe('one')
    expect(history.at(-1)).toBe('three')
  })
})
