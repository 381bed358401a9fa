import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createMemoryBackend, type MemoryBackend } from '@nexus/objectstore-memory-test'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openSession, silentLogger, type Session } from '../src/index.ts'

let root: string
let backend: MemoryBackend

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nexus-close-'))
  backend = createMemoryBackend()
})

afterEach(() => rmSync(root, { recursive: true, force: true }))

async function committed(): Promise<Session> {
  const session = await openSession({ id: 's1', root, store: backend, logger: silentLogger })
  await session.workspace.writeFile('files/a.txt', 'one')
  session.storage().put('k', 'v')
  await session.commit('all there is')
  return session
}

function puts(calls: number): string[] {
  return backend.faults.calls.slice(calls).flatMap(({ op, key }) => (op === 'put' ? [key] : []))
}

describe('closing a session', () => {
  it('stores nothing when nothing has changed since the last commit', async () => {
    const session = await committed()
    const calls = backend.faults.calls.length
    await session.close()
    expect(puts(calls)).toEqual([])
    expect(backend.objects.has('sessions/s1.owner/owner.json')).toBe(false)
  })

  it('stores nothing when a session was only opened and looked at', async () => {
    await (await committed()).close()
    const again = await openSession({ id: 's1', root, store: backend, logger: silentLogger })
    expect((await again.workspace.readFile('files/a.txt')).toString()).toBe('one')
    expect(again.storage().get('k')?.toString()).toBe('v')
    const calls = backend.faults.calls.length
    await again.close()
    expect(puts(calls)).toEqual([])
  })

  const CHANGES: [string, (session: Session) => unknown][] = [
    ['a file was written', (session) => session.workspace.writeFile('files/b.txt', 'two')],
    [
      'a file was rewritten past the helpers, at the same size and time',
      (session) => writeFileSync(join(session.dir, 'files/a.txt'), 'two'),
    ],
    ['a file was removed', (session) => session.workspace.deleteFile('files/a.txt')],
    ['a row was written', (session) => session.storage().put('k', 'w')],
    ['an event was emitted', (session) => session.bus.emit('my.event', { said: 'something' })],
    ['a blob was put', (session) => session.blobs.put(Buffer.from('blob'))],
  ]

  it.each(CHANGES)('stores it when %s since the last commit', async (_what, change) => {
    const session = await committed()
    await change(session)
    const calls = backend.faults.calls.length
    await session.close()
    expect(puts(calls)).toContain('sessions/s1.manifest/manifest.json')
  })
})
