import { appendFileSync, mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { ManualClock } from '@nexus/host/testing'
import { tempDir } from '../../test/temp-dir.ts'
import type { ErrorClass } from '../driver.ts'
import { counting } from './counting.ts'
import { Gate } from './gate.ts'
import { monotonicProgress } from './monotonic-progress.ts'
import { openSnapshot } from './open-snapshot.ts'
import { rangeHeader, resolveRange } from './range.ts'
import { parseRetryAfter, retrying, type RetryOptions } from './retrying.ts'

describe('retrying', () => {
  const failure = (errorClass: ErrorClass | undefined, retryAfterMs?: number): Error =>
    Object.assign(new Error('failed'), { errorClass, retryAfterMs })
  const classify = (error: unknown): ErrorClass | undefined => (error as { errorClass?: ErrorClass }).errorClass

  /** Runs with errors in turn, then success; gives the outcome, the attempts and the time that it took. */
  async function run(
    errors: Error[],
    options: RetryOptions = {},
  ): Promise<[outcome: unknown, attempts: number, ms: number]> {
    const clock = new ManualClock(0)
    let attempts = 0
    const work = async (attempt: number): Promise<string> => {
      expect(attempt).toBe(++attempts)
      const error = errors[attempt - 1]
      if (error !== undefined) throw error
      return 'done'
    }
    let outcome: unknown
    retrying(classify, work, undefined, { clock, random: () => 1, ...options }).then(
      (value) => (outcome = value),
      (error: unknown) => (outcome = error),
    )
    await clock.advance(0)
    while (clock.pendingTimers > 0) await clock.advance(50)
    return [outcome, attempts, clock.now()]
  }

  it('repeats what passes, at bounds that double, longer when it is throttled', async () => {
    expect(await run([failure('temporary'), failure('temporary')])).toEqual(['done', 3, 600])
    expect(await run([failure('throttled'), failure('throttled')])).toEqual(['done', 3, 3_000])
  })

  it('draws each pause between nothing and its bound', async () => {
    expect(await run([failure('temporary')], { random: () => 0 })).toEqual(['done', 2, expect.any(Number)])
    expect((await run([failure('throttled')], { random: () => 0.5 }))[2]).toBe(500)
  })

  it.each([undefined, 'permanent', 'permission', 'not-found'] as const)(
    'throws %s errors at once',
    async (errorClass) => {
      const error = failure(errorClass)
      expect(await run([error])).toEqual([error, 1, 0])
    },
  )

  it('throws the last error when the attempts or the patience are spent', async () => {
    const errors = Array.from({ length: 9 }, () => failure('temporary'))
    expect(await run(errors, { attempts: 3 })).toEqual([errors[2], 3, 600])
    expect((await run(errors, { attempts: 99, patienceMs: 1_000 }))[1]).toBe(3)
  })

  it('begins a new row when an attempt got further', async () => {
    let reached = 0
    const errors = Array.from({ length: 9 }, () => failure('temporary'))
    expect((await run(errors, { attempts: 2, reached: () => reached++ }))[0]).toBe('done')
  })

  it('waits as long as the store asks, from the error or a cause, and not for hours', async () => {
    expect((await run([failure('throttled', 7_000)]))[2]).toBe(7_000)
    const wrapped = Object.assign(new Error('x', { cause: failure(undefined, 9_000) }), { errorClass: 'throttled' })
    expect((await run([wrapped]))[2]).toBe(9_000)
    const long = failure('throttled', 3_600_000)
    expect(await run([long])).toEqual([long, 1, 0])
  })

  it('tells of its pauses, and ends one when the signal fires', async () => {
    const clock = new ManualClock(0)
    const abort = new AbortController()
    const told: string[] = []
    const onWait = (): (() => void) => {
      told.push('waits')
      return () => told.push('goes on')
    }
    const running = retrying(classify, () => Promise.reject(failure('temporary')), abort.signal, { clock, onWait })
    await setImmediate()
    abort.abort('enough')
    await expect(running).rejects.toBe('enough')
    expect(told).toEqual(['waits', 'goes on'])
    expect(clock.pendingTimers).toBe(0)
  })

  it.each([
    ['120', 120_000],
    [' 0 ', 0],
    ['Tue, 01 Dec 2026 00:01:00 GMT', 60_000],
    ['Tue, 01 Dec 2020 00:01:00 GMT', 0],
    ['soon', undefined],
    ['5 minutes', undefined],
    ['', undefined],
    [null, undefined],
  ])('reads Retry-After %j as %s ms', (header, expected) => {
    expect(parseRetryAfter(header, Date.UTC(2026, 11, 1))).toBe(expected)
  })
})

describe('monotonicProgress', () => {
  it('never goes back, and tells what moved again', () => {
    const seen: unknown[] = []
    const progress = monotonicProgress((each) => seen.push(each))
    progress.begin()
    progress.moved(60)
    progress.begin()
    progress.moved(40)
    progress.moved(40)
    progress.begin(80)
    progress.moved(20)
    progress.finished(100)
    expect(seen).toEqual([
      { objects: 0, bytes: 60 },
      { objects: 0, bytes: 60, repeatedBytes: 40 },
      { objects: 0, bytes: 80, repeatedBytes: 60 },
      { objects: 0, bytes: 100, repeatedBytes: 60 },
      { objects: 1, bytes: 100, repeatedBytes: 60 },
    ])
  })
})

describe('ranges', () => {
  it.each([
    [{}, { offset: 0, length: 10 }, undefined],
    [{ offset: 0 }, { offset: 0, length: 10 }, undefined],
    [{ offset: 3 }, { offset: 3, length: 7 }, 'bytes=3-'],
    [{ offset: 3, length: 4 }, { offset: 3, length: 4 }, 'bytes=3-6'],
    [{ offset: 8, length: 99 }, { offset: 8, length: 2 }, 'bytes=8-106'],
    [{ offset: 10 }, { offset: 10, length: 0 }, 'bytes=10-'],
    [{ offset: 99, length: 1 }, { offset: 10, length: 0 }, 'bytes=99-99'],
    [{ offset: 2, length: 0 }, { offset: 2, length: 0 }, 'bytes=2-2'],
  ])('resolves %j of ten bytes', (range, resolved, header) => {
    expect(resolveRange(range, 10)).toEqual(resolved)
    expect(rangeHeader(range)).toBe(header)
  })
})

describe('Gate', () => {
  it('lets in by weight and in order, and tells who waits', async () => {
    const gate = new Gate(4)
    const order: string[] = []
    const enter = async (name: string, weight: number): Promise<() => void> => {
      const onWait = (): (() => void) => {
        order.push(`${name} waits`)
        return () => order.push(`${name} goes on`)
      }
      return gate.enter(weight, { onWait })
    }
    const leaveFirst = await enter('first', 3)
    const second = enter('second', 99)
    const third = enter('third', 1)
    leaveFirst()
    leaveFirst()
    const leaveSecond = await second
    expect(order).toEqual(['second waits', 'third waits', 'second goes on'])
    leaveSecond()
    ;(await third)()
  })

  it('forgets one whose signal fires', async () => {
    const gate = new Gate(1)
    const leave = await gate.enter(1)
    const abort = new AbortController()
    const waiting = gate.enter(1, { signal: abort.signal })
    const next = gate.enter(1)
    abort.abort('enough')
    await expect(waiting).rejects.toBe('enough')
    leave()
    ;(await next)()
  })
})

describe('openSnapshot', () => {
  async function textOf(stream: AsyncIterable<Buffer>): Promise<string> {
    const chunks: Buffer[] = []
    for await (const chunk of stream) chunks.push(chunk)
    return Buffer.concat(chunks).toString()
  }

  it('gives the first bytes of a file that grows, as often as they are asked for', async () => {
    const path = join(tempDir(), 'log')
    writeFileSync(path, '0123456789')
    const snapshot = await openSnapshot(path)
    appendFileSync(path, 'more')
    expect(snapshot.size).toBe(10)
    expect(await textOf(snapshot.stream())).toBe('0123456789')
    expect(await textOf(snapshot.stream(4, 3))).toBe('456')
    expect(await textOf(snapshot.stream(8, 99))).toBe('89')
    expect(await textOf(snapshot.stream(10))).toBe('')
    const buffer = Buffer.alloc(4)
    await snapshot.fill(buffer, 2)
    expect(buffer.toString()).toBe('2345')
    await snapshot.close()
  })

  it('names the path of a file that shrinks, and refuses what is no file', async () => {
    const dir = tempDir()
    const path = join(dir, 'f')
    writeFileSync(path, '0123456789')
    const snapshot = await openSnapshot(path)
    truncateSync(path, 4)
    await expect(textOf(snapshot.stream())).rejects.toMatchObject({ code: 'EIO', path })
    await snapshot.close()
    mkdirSync(join(dir, 'd'))
    await expect(openSnapshot(join(dir, 'd'))).rejects.toMatchObject({ code: 'EISDIR', path: join(dir, 'd') })
    await expect(openSnapshot(join(dir, 'missing'))).rejects.toMatchObject({ code: 'ENOENT' })
  })

  it('can be closed under streams that are read, without an error and without touching another file', async () => {
    const dir = tempDir()
    const path = join(dir, 'large')
    writeFileSync(path, Buffer.alloc(8 * 1024 * 1024, 'a'))
    for (let round = 0; round < 20; round++) {
      const snapshot = await openSnapshot(path)
      const stream = snapshot.stream()
      const errors: unknown[] = []
      stream.on('error', (error) => errors.push(error))
      stream.on('data', (chunk: Buffer) => expect(chunk[0]).toBe(0x61))
      // One that is never listened to: an error of it would end the process.
      snapshot.stream().resume()
      if (round % 2 === 0) await setImmediate()
      await Promise.all([snapshot.close(), snapshot.close()])
      const other = await open(join(dir, `other-${round}`), 'w+')
      await setImmediate()
      await other.close()
      expect(errors).toEqual([])
    }
  })
})

describe('attempts in turns', () => {
  it('hold no place while they pause, and say that they wait', async () => {
    const gate = new Gate(1)
    const waits: string[] = []
    const onWait = (): (() => void) => {
      waits.push('begins')
      return () => void waits.push('ends')
    }
    const failing = Object.assign(new Error('later'), { retryAfterMs: 20 })
    let inside = 0
    const turn = async (attempt: number): Promise<number> => {
      expect(++inside).toBe(1)
      await setImmediate()
      inside--
      if (attempt === 1) throw failing
      return attempt
    }
    const run = (): Promise<number> => retrying(() => 'temporary', turn, undefined, { gate, onWait, random: () => 0 })
    expect(await Promise.all([run(), run(), run()])).toEqual([2, 2, 2])
    // The second and third for their first turn, each for its pause, and some of them for their second turn.
    expect(waits.filter((each) => each === 'begins').length).toBeGreaterThanOrEqual(5)
    const left = await gate.enter(1)
    left()
  })
})

describe('counting', () => {
  it('hands bytes on as they are', async () => {
    const seen: number[] = []
    const progress = { moved: (bytes: number) => void seen.push(bytes) }
    const chunks = [Buffer.from('ab'), Buffer.from('cde')]
    expect(Buffer.concat(await Readable.from(chunks).pipe(counting(progress)).toArray()).toString()).toBe('abcde')
    expect(seen).toEqual([2, 3])
  })
})
