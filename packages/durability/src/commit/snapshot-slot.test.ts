import { describe, expect, it } from 'vitest'
import { gate, settle } from '@nexus/host/testing'
import { SnapshotSlot } from './snapshot-slot.ts'

function newSlot() {
  const runs: { batch: string[]; finish: (outcome: string) => void }[] = []
  const announced: string[] = []
  const hooks: ((outcome: string) => Promise<void>)[] = []
  const slot = new SnapshotSlot<string, string>({
    run: (batch) => {
      const { promise, open } = gate<string>()
      runs.push({ batch: [...batch], finish: open })
      return promise
    },
    announce: async (outcome) => {
      announced.push(outcome)
      for (const hook of hooks) await hook(outcome)
    },
  })
  return {
    slot,
    runs,
    announced,
    onAnnounce: (hook: (outcome: string) => Promise<void>): void => void hooks.push(hook),
  }
}

describe('the snapshot slot', () => {
  it('lets requests that arrive while one runs share the next, and never the running one', async () => {
    const { slot, runs } = newSlot()
    const first = slot.request('a')
    const second = slot.request('b')
    const third = slot.request('c')
    await settle()
    expect(runs.map(({ batch }) => batch)).toEqual([['a']])
    runs[0]?.finish('one')
    await settle()
    expect(runs.map(({ batch }) => batch)).toEqual([['a'], ['b', 'c']])
    runs[1]?.finish('two')
    expect(await Promise.all([first, second, third])).toEqual(['one', 'two', 'two'])
  })

  it('never runs two at a time', async () => {
    let running = 0
    let most = 0
    const slot = new SnapshotSlot<number, number>({
      run: async (batch) => {
        most = Math.max(most, ++running)
        await settle()
        running -= 1
        return batch.length
      },
      announce: () => Promise.resolve(),
    })
    const outcomes: Promise<number>[] = []
    for (let i = 0; i < 50; i++) {
      outcomes.push(slot.request(i))
      if (i % 3 === 0) await settle()
    }
    await Promise.all(outcomes)
    expect(most).toBe(1)
  })

  it('announces when the slot is free: a handler of the result can ask again and wait for it', async () => {
    const { slot, runs, onAnnounce } = newSlot()
    let again: Promise<string> | undefined
    onAnnounce(async (outcome) => {
      if (outcome !== 'one') return
      again = slot.request('from the handler')
      await again
    })
    const first = slot.request('a')
    runs[0]?.finish('one')
    await settle()
    expect(runs[1]?.batch).toEqual(['from the handler'])
    runs[1]?.finish('two')
    expect(await first).toBe('one')
    expect(await again).toBe('two')
  })

  it('lets callers go on only when the outcome was announced', async () => {
    const { slot, runs, announced, onAnnounce } = newSlot()
    const held = gate()
    onAnnounce(() => held.promise)
    let resolved = false
    const request = slot.request('a').then(() => (resolved = true))
    runs[0]?.finish('one')
    await settle()
    expect(announced).toEqual(['one'])
    expect(resolved).toBe(false)
    held.open()
    await request
  })

  it('is free again after a bug, which its callers get', async () => {
    let broken = true
    const slot = new SnapshotSlot<string, string>({
      run: () => (broken ? Promise.reject(new Error('a bug')) : Promise.resolve('fine')),
      announce: () => Promise.resolve(),
    })
    await expect(slot.request('a')).rejects.toThrow('a bug')
    broken = false
    expect(await slot.request('b')).toBe('fine')
    await slot.idle()
  })

  it('is idle when nothing runs and nothing waits', async () => {
    const { slot, runs } = newSlot()
    await slot.idle()
    void slot.request('a')
    void slot.request('b')
    let idle = false
    const waiting = slot.idle().then(() => (idle = true))
    runs[0]?.finish('one')
    await settle()
    expect(idle).toBe(false)
    runs[1]?.finish('two')
    await waiting
  })
})
