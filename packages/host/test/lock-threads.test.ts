import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { describe, expect, it } from 'vitest'
import { acquireSessionLock, readLockState } from '../src/lock/session-lock.ts'
import { systemProcesses } from '../src/process/process-identity.ts'
import { age, machine, observed, SELF, session } from './lock-fixtures.ts'

const NEEDS_PROC = 'the kernel tells of threads in /proc'

/** A thread of this process that holds the lock of the session. */
async function holding(dir: string): Promise<Worker> {
  const worker = new Worker(new URL('./lock-thread.ts', import.meta.url), { workerData: { dir } })
  worker.on('error', () => undefined)
  await once(worker, 'message')
  return worker
}

const ENDS: [string, (worker: Worker) => unknown][] = [
  ['terminate()', (worker) => worker.terminate()],
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  ['process.exit() in it', (worker) => worker.postMessage('exit')],
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  ['an uncaught error', (worker) => worker.postMessage('throw')],
]

describe('a session that a worker thread has open', () => {
  it.each(ENDS)('is refused while the thread runs, and free at once when it was ended by %s', async (_how, end) => {
    if (process.platform !== 'linux') throw new Error(NEEDS_PROC)
    const dir = session()
    const worker = await holding(dir)
    await expect(acquireSessionLock(dir, { transport: 'test' })).rejects.toMatchObject({
      code: 'LOCKED',
      message: expect.stringContaining('another thread of this process') as string,
    })
    expect(readLockState(dir)).toBe('live')
    const ended = new Promise((resolve) => worker.once('exit', resolve))
    end(worker)
    await ended
    expect(readLockState(dir)).toBe('dead')
    const lock = await acquireSessionLock(dir, { transport: 'test' })
    lock.release()
  })

  it('is judged by its heartbeat where nothing can be told of threads', async () => {
    const thread = { tid: 0, start: 0 }
    const dir = session({ ...SELF, thread })
    const processes = { ...machine(), threadRuns: () => undefined }
    const { options, clock } = observed({ processes })
    await expect(acquireSessionLock(dir, options)).rejects.toMatchObject({ code: 'LOCKED' })
    age(dir, 60_000)
    const taking = acquireSessionLock(dir, options)
    await clock.advance(7_500)
    const lock = await taking
    lock.release()
  })

  it('is not told of by the main thread, which lives as long as its process', () => {
    expect(systemProcesses.threadRuns?.(process.pid, { tid: process.pid, start: 1 })).toBe(false)
    expect(systemProcesses.threadRuns?.(process.pid, { tid: 0, start: 0 })).toBeUndefined()
  })
})

describe('waiting for a lock', () => {
  it('opens the session as soon as its holder lets go', async () => {
    const dir = session()
    const first = await acquireSessionLock(dir, { transport: 'first' })
    const second = acquireSessionLock(dir, { transport: 'second', waitMs: 10_000 })
    setTimeout(() => first.release(), 150)
    const lock = await second
    expect(lock.holder.transport).toBe('second')
    lock.release()
  })

  it('ends at its limit, with an error that says how long it was held and waited for', async () => {
    const dir = session({ ...SELF, pid: 20, pidStart: 200 })
    const { options, clock } = observed({ processes: machine({ 20: { pidStart: 200 } }), waitMs: 1_000 })
    const refused = acquireSessionLock(dir, options).catch((error: unknown) => error)
    for (let step = 0; step < 12; step++) {
      await new Promise((resolve) => setImmediate(resolve))
      await clock.advance(100)
    }
    expect(await refused).toMatchObject({
      code: 'LOCKED',
      retryable: true,
      heldForMs: expect.any(Number) as number,
      message: expect.stringMatching(/has been held for \d+ s; waited 1000 ms for it/) as string,
    })
  })

  it('ends when its signal fires', async () => {
    const dir = session()
    const first = await acquireSessionLock(dir, { transport: 'first' })
    const gone = new AbortController()
    const second = acquireSessionLock(dir, { transport: 'second', waitMs: 10_000, signal: gone.signal })
    gone.abort(new Error('the client left'))
    await expect(second).rejects.toThrow('the client left')
    first.release()
  })
})
