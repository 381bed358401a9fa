import { describe, expect, it } from 'vitest'
import type { FromWorker } from './protocol.ts'
import { WorkerCall } from './worker-call.ts'

function createCall(): { call: WorkerCall; sent: FromWorker[] } {
  const sent: FromWorker[] = []
  return { call: new WorkerCall(1, (message) => sent.push(message)), sent }
}

const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}

describe('WorkerCall', () => {
  it('does not run further ahead than two windows of reports that nobody has heard', async () => {
    const { call, sent } = createCall()
    let steps = 0
    const work = (async () => {
      for (; steps < 100; steps++) await call.progress({ objects: steps + 1, bytes: 0 })
    })()
    await turns(20)
    expect(sent).toHaveLength(16)
    call.heard()
    await turns(20)
    expect(sent).toHaveLength(24)
    for (let heard = 0; heard < 20; heard++) {
      call.heard()
      await turns(2)
    }
    await work
    expect(sent).toHaveLength(100)
  })

  it('stops where it waits when it is aborted', async () => {
    const { call } = createCall()
    const work = (async () => {
      for (let step = 1; ; step++) await call.progress({ objects: step, bytes: 0 })
    })()
    await turns(5)
    call.abort()
    await expect(work).rejects.toMatchObject({ name: 'AbortError' })
    await expect(call.progress({ objects: 1000, bytes: 0 })).rejects.toMatchObject({ name: 'AbortError' })
  })

  it('sends no report twice and none that goes back', async () => {
    const { call, sent } = createCall()
    for (const bytes of [0, 5, 5, 3, 9]) await call.progress({ objects: 0, bytes })
    expect(sent.map((message) => (message.kind === 'progress' ? message.progress.bytes : -1))).toEqual([5, 9])
  })
})
