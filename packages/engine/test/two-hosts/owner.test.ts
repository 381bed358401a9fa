import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { endProcesses, giveBack } from './host-process.ts'
import { TwoHosts } from './two-hosts.ts'

let lab: TwoHosts

beforeEach(() => {
  lab = new TwoHosts()
})

afterEach(() => lab.close())
afterAll(endProcesses)

const HOUR_MS = 3_600_000
const HEARTBEAT_MS = 30_000

describe('two hosts on one session', () => {
  it('both hear of it: the second when it boots, the first at its next heartbeat', async () => {
    const { a, b } = lab
    await a.boot()
    await a.input('one')
    await b.boot()
    expect(b.seen('session.owner.conflict')).toMatchObject([
      { holder_pid: a.process.pid, local_pid: b.process.pid, local_instance_id: lab.owner?.['instance_id'] },
    ])
    await a.process.tell('skip-time', { ms: HEARTBEAT_MS })
    expect(await a.raises('session.owner.conflict')).toMatchObject({ holder_pid: b.process.pid })
    await a.stop()
    expect(lab.owner).toMatchObject({ pid: b.process.pid })
  })

  it('one after the other see nothing of each other: a stop takes the marker away', async () => {
    const { a, b } = lab
    await a.boot()
    await a.input('one')
    await a.stop()
    expect(lab.owner).toBeUndefined()
    await b.boot()
    expect(b.seen('session.owner.conflict')).toEqual([])
    expect(lab.owner).toMatchObject({ pid: b.process.pid })
  })

  it('raise nothing when the first one crashed on this machine', async () => {
    const { a, b } = lab
    await a.boot()
    await a.input('one')
    await a.kill()
    await b.boot()
    expect(b.seen('session.owner.conflict')).toEqual([])
    expect(lab.owner).toMatchObject({ pid: b.process.pid })
  })

  it('conflict when the first one was killed on another machine a moment ago, and are a takeover later', async () => {
    const { a, b } = lab
    await a.boot()
    await a.input('one')
    await a.kill()
    lab.forgeOwner({ host: 'another-machine' })
    await b.boot()
    expect(b.seen('session.owner.conflict')).toMatchObject([{ holder_host: 'another-machine' }])
    await b.kill()
    lab.forgeOwner({ host: 'another-machine', heartbeat_at: new Date(Date.now() - 301_000).toISOString() })
    const late = lab.machine('late')
    await late.boot()
    expect(late.seen('session.owner.conflict')).toEqual([])
    expect(late.logged('info')).toContainEqual(expect.stringContaining('took over a session'))
    expect(lab.owner).toMatchObject({ pid: late.process.pid })
  })
})

describe('a clock that is an hour ahead', () => {
  it('steals no lock from a process that holds the session on the same disk', async () => {
    const { a } = lab
    await a.boot()
    await a.input('one')
    const holder = a.replaceProcess()
    await a.process.tell('set-ahead', { ms: HOUR_MS })
    await expect(a.boot()).rejects.toMatchObject({ name: 'SessionLockedError', code: 'LOCKED' })
    expect(await holder.tell('input', { content: 'two' })).toEqual({ accepted: true })
    expect(await lab.resumedElsewhere()).toMatchObject({ history: ['one', 'two'] })
    await giveBack(holder)
  })

  it('may take a live holder for a dead one, but gets past no commit: whoever stores later is refused and says so', async () => {
    const { a, b } = lab
    await a.boot()
    await a.input('one')
    lab.forgeOwner({ host: 'another-machine' })
    await b.process.tell('set-ahead', { ms: HOUR_MS })
    await b.boot()
    expect(b.seen('session.owner.conflict')).toEqual([])
    await a.input('two of a')
    const stored = lab.objects()
    await b.input('two of b')
    expect(b.seen('session.owner.lost')).toHaveLength(1)
    expect(lab.objects()).toEqual(stored)
  })
})
