import { createMemoryBackend } from '@nexus/objectstore-memory-test'
import { silentLogger as logger } from '@nexus/host'
import { gate, tempDir } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import { openSession, type OpenSessionOptions, type Session, SessionPool } from '../src/index.ts'

/** A pool over one store, and what it opened. */
function newPool(options: { maxOpen?: number; idleMs?: number } = {}): {
  pool: SessionPool
  store: ReturnType<typeof createMemoryBackend>
  opened: string[]
  mostOpen: () => number
} {
  const store = createMemoryBackend()
  const opened: string[] = []
  let [open, most] = [0, 0]
  const pool = new SessionPool({
    root: tempDir(),
    store,
    logger,
    idleMs: 1_000_000,
    ...options,
    async open(given: OpenSessionOptions): Promise<Session> {
      opened.push(String(given.id))
      most = Math.max(most, ++open)
      const session = await openSession(given)
      const gone = (): void => void (open -= 1)
      return {
        ...session,
        close: () => session.close().finally(gone),
        abandon: () => session.abandon().finally(gone),
      }
    },
  })
  return { pool, store, opened, mostOpen: () => most }
}

const count = (session: Session): number => {
  const storage = session.storage()
  const next = Number(storage.get('count') ?? 0) + 1
  storage.put('count', String(next))
  return next
}

describe('a pool of sessions', () => {
  it('opens one when it is wanted, and gives it to all that want it', async () => {
    const { pool, opened } = newPool()
    const both = gate()
    const first = pool.use('a', async (session) => {
      await both.promise
      return session
    })
    const second = pool.use('a', (session) => {
      both.open(undefined)
      return session
    })
    expect(await first).toBe(await second)
    expect(await pool.use('a', count)).toBe(1)
    expect(opened).toEqual(['a'])
    expect(pool.size).toBe(1)
    await pool.close()
  })

  it('never has more open than it may: it closes the one that was used longest ago, and opens it again', async () => {
    const { pool, opened, mostOpen } = newPool({ maxOpen: 2 })
    for (const id of ['a', 'b', 'a', 'c', 'a', 'b']) await pool.use(id, count)
    expect(opened).toEqual(['a', 'b', 'c', 'b'])
    expect(await pool.use('a', count)).toBe(4)
    expect(await pool.use('b', count)).toBe(3)
    expect(mostOpen()).toBe(2)
    expect(await pool.close()).toEqual({ closed: 2, failed: [] })
  })

  it('lets a use wait while all places are taken', async () => {
    const { pool, mostOpen } = newPool({ maxOpen: 1 })
    const done = gate()
    const order: string[] = []
    const first = pool.use('a', async () => {
      await done.promise
      order.push('a')
    })
    const others = ['b', 'c', 'b'].map((id) => pool.use(id, () => void order.push(id)))
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(order).toEqual([])
    done.open(undefined)
    await Promise.all([first, ...others])
    expect(order).toHaveLength(4)
    expect(order[0]).toBe('a')
    expect(mostOpen()).toBe(1)
    await pool.close()
  })

  it('closes what is idle, with a last commit', async () => {
    const { pool, store } = newPool({ idleMs: 5 })
    await pool.use('a', count)
    await expect.poll(() => pool.size).toBe(0)
    const other = await openSession({ id: 'a', root: tempDir(), store, logger })
    expect(count(other)).toBe(2)
    await other.close()
    await pool.close()
  })

  it('keeps open what is used, however long that takes', async () => {
    const { pool, opened } = newPool({ idleMs: 1 })
    await pool.use('a', async (session) => {
      await new Promise((resolve) => setTimeout(resolve, 30))
      expect(session.status().phase).toBe('running')
    })
    expect(opened).toEqual(['a'])
    await pool.close()
  })

  it('opens anew what was lost to another host', async () => {
    const { pool, store, opened } = newPool()
    await pool.use('a', async (session) => {
      count(session)
      await session.commit()
    })
    const other = await openSession({ id: 'a', root: tempDir(), store, logger })
    expect(count(other)).toBe(2)
    await other.commit()
    await other.abandon()
    await pool.use('a', (session) => {
      count(session)
      return expect(session.commit()).rejects.toMatchObject({ code: 'FENCED' })
    })
    expect(await pool.use('a', count)).toBe(3)
    expect(opened).toEqual(['a', 'a'])
    await pool.close()
  })

  it('hands on what an open and a work throw, and has its place free afterwards', async () => {
    const { pool } = newPool({ maxOpen: 1 })
    const bad = pool.use('not/an id', count)
    const waits = pool.use('a', count)
    await expect(bad).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(await waits).toBe(1)
    await expect(pool.use('a', () => Promise.reject(new Error('mine')))).rejects.toThrow('mine')
    expect(await pool.use('a', count)).toBe(2)
    await pool.close()
  })

  it('takes nothing more once it is closed, and closes when the uses are over', async () => {
    const { pool, store } = newPool()
    const done = gate()
    const using = pool.use('a', async (session) => {
      await done.promise
      return count(session)
    })
    await pool.use('b', count)
    const end = pool.close()
    await expect(pool.use('c', count)).rejects.toMatchObject({ code: 'CLOSED' })
    done.open(undefined)
    expect(await using).toBe(1)
    expect(await end).toEqual({ closed: 2, failed: [] })
    expect(await pool.close()).toBe(await end)
    const after = await openSession({ id: 'a', root: tempDir(), store, logger })
    expect(count(after)).toBe(2)
    await after.close()
  })

  it('drops what is not done in time, and says which', async () => {
    const { pool } = newPool()
    const begun = gate()
    void pool
      .use('slow', () => {
        begun.open(undefined)
        return new Promise(() => undefined)
      })
      .catch(() => undefined)
    await pool.use('quick', count)
    await begun.promise
    const { closed, failed } = await pool.close({ timeoutMs: 2_000 })
    expect(closed).toBe(1)
    expect(failed).toMatchObject([{ id: 'slow', error: { code: 'ABORTED' } }])
    expect(pool.size).toBe(0)
  })

  it('gives a free place to the next that waits, when the one before found its session open', async () => {
    const { pool } = newPool({ maxOpen: 2 })
    const [first, second] = [gate(), gate()]
    const a = pool.use('a', () => first.promise)
    const b = pool.use('b', () => second.promise)
    const again = ['c', 'c', 'd'].map((id) => pool.use(id, count))
    first.open(undefined)
    await Promise.all([a, ...again])
    second.open(undefined)
    await b
    await pool.close()
  })

  it('ends in time while a session opens, and drops that when it is open', async () => {
    const opening = gate<Session>()
    const dropped = gate()
    const pool = new SessionPool({ open: () => opening.promise })
    const use = pool.use('a', () => undefined).catch(() => undefined)
    const { closed, failed } = await pool.close({ timeoutMs: 20 })
    expect([closed, failed]).toMatchObject([0, [{ id: 'a', error: { code: 'ABORTED' } }]])
    const session = { status: () => ({ phase: 'running' }), close: async () => undefined } as unknown as Session
    opening.open({ ...session, abandon: async () => dropped.open(undefined) })
    await dropped.promise
    await use
  })

  it('closes at once where a lost session is being dropped', async () => {
    const dropping = gate()
    const [lost, drop] = [gate(), gate()]
    let phase = 'running'
    const session = {
      status: () => ({ phase }),
      close: async () => undefined,
      abandon: () => (dropping.open(undefined), drop.promise),
    } as unknown as Session
    const pool = new SessionPool({ open: async () => session })
    const busy = pool.use('a', () => lost.promise)
    await new Promise(setImmediate)
    phase = 'lost'
    const next = pool.use('a', () => undefined).catch(() => undefined)
    await dropping.promise
    const end = pool.close({ timeoutMs: 60_000 })
    lost.open(undefined)
    drop.open(undefined)
    await Promise.all([busy, next])
    expect(await end).toEqual({ closed: 1, failed: [] })
  })

  it.each([{ maxOpen: 0 }, { maxOpen: 1.5 }, { idleMs: -1 }, { idleMs: Number.NaN }])('refuses %o', (options) => {
    expect(() => new SessionPool(options)).toThrow(/must be/)
  })
})
