import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { FaultClock } from './faults.ts'
import { createMemoryBackend } from './memory-backend.ts'

function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

async function stateOf(promise: Promise<unknown>): Promise<string> {
  let state = 'pending'
  promise.then(
    () => (state = 'resolved'),
    () => (state = 'rejected'),
  )
  await settle()
  return state
}

describe('the faults of a memory backend', () => {
  let dir: string
  let file: string

  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'nexus-memory-'))
    file = join(dir, 'file')
    writeFileSync(file, 'content')
  })

  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  it('logs every call with its number, operation and key', async () => {
    const backend = createMemoryBackend()
    await backend.put('s/a', file)
    await backend.list('s')
    await backend.hydrate('s', join(dir, 'out'))
    await backend.get('s/a', join(dir, 'got'))
    await backend.putIfAbsent('s/a', file)
    await backend.delete('s/a')
    await backend.flush()
    await backend.close()
    expect(backend.faults.calls.map(({ index, op, key }) => `${index} ${op} ${key}`.trim())).toEqual([
      '1 put s/a',
      '2 list s',
      '3 hydrate s',
      '4 get s/a',
      '5 putIfAbsent s/a',
      '6 delete s/a',
      '7 flush',
    ])
  })

  it('logs no call that was refused or aborted before it began', async () => {
    const backend = createMemoryBackend()
    await expect(backend.put('../x', file)).rejects.toThrow('object key')
    await expect(backend.list('s', { signal: AbortSignal.abort('no') })).rejects.toBe('no')
    expect(backend.faults.calls).toEqual([])
  })

  it('fails the n-th call, which does nothing', async () => {
    const backend = createMemoryBackend()
    const error = new Error('second')
    backend.faults.failNth(2, error)
    await backend.put('a', file)
    await expect(backend.put('b', file)).rejects.toBe(error)
    await backend.put('c', file)
    expect([...backend.objects.keys()]).toEqual(['a', 'c'])
  })

  it('fails the calls a predicate picks, with an error that classify explains', async () => {
    const backend = createMemoryBackend()
    backend.faults.failWhen(({ op, key }) => op === 'put' && key.endsWith('.db'))
    const error: unknown = await backend.put('s/store.db', file).catch((reason: unknown) => reason)
    expect(backend.classify(error)).toBe('temporary')
    await backend.put('s/other', file)
    await backend.delete('s/store.db')
    const denied = Object.assign(new Error('403'), { errorClass: 'permission' })
    backend.faults.failWhen(() => true, denied)
    await expect(backend.flush()).rejects.toBe(denied)
    expect(backend.classify(denied)).toBe('permission')
    backend.faults.heal()
    await backend.flush()
  })

  it('delays calls by its clock, and an abort ends the wait', async () => {
    const waits: [() => void, number][] = []
    const cleared: unknown[] = []
    const clock: FaultClock = {
      setTimeout: (callback, ms) => {
        waits.push([callback, ms])
        return { unref: () => undefined }
      },
      clearTimeout: (handle) => void cleared.push(handle),
    }
    const backend = createMemoryBackend({ clock })
    backend.faults.delay(({ op }) => (op === 'put' ? 250 : 0))
    await backend.flush()
    const put = backend.put('a', file)
    expect(await stateOf(put)).toBe('pending')
    expect(backend.objects.size).toBe(0)
    expect(waits.map(([, ms]) => ms)).toEqual([250])
    waits[0]?.[0]()
    await put
    expect(backend.objects.size).toBe(1)

    const abort = new AbortController()
    const stopped = backend.put('b', file, { signal: abort.signal })
    abort.abort('enough')
    await expect(stopped).rejects.toBe('enough')
    expect(cleared).toHaveLength(1)
    expect(backend.objects.size).toBe(1)
  })

  it('hangs until the signal fires, and for ever when it ignores it', async () => {
    const backend = createMemoryBackend()
    backend.faults.hang(({ op }) => op === 'list')
    await backend.put('a', file)
    const abort = new AbortController()
    const list = backend.list('', { signal: abort.signal })
    expect(await stateOf(list)).toBe('pending')
    abort.abort('enough')
    await expect(list).rejects.toBe('enough')

    const deaf = createMemoryBackend()
    deaf.faults.hang(undefined, { ignoreSignal: true })
    const second = new AbortController()
    const call = deaf.flush({ signal: second.signal })
    second.abort()
    expect(await stateOf(call)).toBe('pending')
  })

  it('loses the answer of a call that took effect', async () => {
    const backend = createMemoryBackend()
    const error = new Error('reset')
    backend.faults.applyThenFail(1)
    backend.faults.applyThenFail(2)
    backend.faults.applyThenFail(3, error)
    await expect(backend.put('a', file)).rejects.toMatchObject({ code: 'ECONNRESET' })
    await expect(backend.putIfAbsent('b', file)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN', key: 'b' })
    await expect(backend.delete('a')).rejects.toBe(error)
    expect([...backend.objects.keys()]).toEqual(['b'])
    expect(await backend.putIfAbsent('b', file)).toBe(false)
  })

  it('dies after n calls: later ones do nothing and never answer', async () => {
    const backend = createMemoryBackend()
    backend.faults.dieAfter(1)
    await backend.put('a', file)
    expect(await stateOf(backend.put('b', file))).toBe('pending')
    const abort = new AbortController()
    const flush = backend.flush({ signal: abort.signal })
    abort.abort('gone')
    await expect(flush).rejects.toBe('gone')
    expect([...backend.objects.keys()]).toEqual(['a'])
    backend.faults.heal()
    await backend.put('c', file)
    expect(backend.faults.calls).toHaveLength(4)
  })

  it('shows every call below a prefix in the same log', async () => {
    const backend = createMemoryBackend()
    const below = backend.withPrefix('p')
    await below.put('a', file)
    expect([...backend.objects.keys()]).toEqual(['p/a'])
    expect(backend.faults.calls).toEqual([{ index: 1, op: 'put', key: 'a' }])
  })
})
