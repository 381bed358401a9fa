import { describe, expect, it } from 'vitest'
import { PathQueue } from './path-queue.ts'

class Gate {
  open!: () => void
  readonly opened: Promise<void> = new Promise((resolve) => {
    this.open = resolve
  })
}

describe('PathQueue', () => {
  it('starts the first task in the call itself', () => {
    let started = false
    void new PathQueue().run('a', async () => {
      started = true
    })
    expect(started).toBe(true)
  })

  it('runs tasks of one path in the order of the calls, of others at once', async () => {
    const queue = new PathQueue()
    const first = new Gate()
    const log: string[] = []
    const runs = [
      queue.run('a', async () => {
        await first.opened
        log.push('a1')
      }),
      queue.run('a', async () => void log.push('a2')),
      queue.run('b', async () => void log.push('b1')),
      queue.run('a', async () => void log.push('a3')),
    ]
    await runs[2]
    expect(log).toEqual(['b1'])
    first.open()
    await Promise.all(runs)
    expect(log).toEqual(['b1', 'a1', 'a2', 'a3'])
  })

  it('goes on after a task that failed, and gives its error to its caller alone', async () => {
    const queue = new PathQueue()
    const failed = queue.run('a', () => Promise.reject(new Error('no')))
    const next = queue.run('a', async () => 'yes')
    await expect(failed).rejects.toThrow('no')
    await expect(next).resolves.toBe('yes')
  })

  it('runs no more than its limit at a time, and all of them in the end', async () => {
    const queue = new PathQueue(3)
    let running = 0
    let most = 0
    const task = async (): Promise<void> => {
      running += 1
      most = Math.max(most, running)
      await new Promise((resolve) => setImmediate(resolve))
      running -= 1
    }
    await Promise.all(Array.from({ length: 20 }, (_, n) => queue.run(`p${n}`, task)))
    expect(most).toBe(3)
    expect(running).toBe(0)
    await queue.run('again', task)
  })

  it('is idle when everything called for before has settled, failures included', async () => {
    const queue = new PathQueue()
    const first = new Gate()
    let done = 0
    void queue.run('a', () => first.opened.then(() => void (done += 1)))
    void queue.run('a', async () => void (done += 1))
    queue.run('b', () => Promise.reject(new Error('no'))).catch(() => undefined)
    const idle = queue.idle()
    first.open()
    await idle
    expect(done).toBe(2)
    await queue.idle()
  })
})
