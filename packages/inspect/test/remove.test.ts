import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { openSession } from '@nexus/engine'
import { silentLogger } from '@nexus/host'
import { tempDir } from '@nexus/host/testing'
import { ObjectStore } from '@nexus/objectstore'
import { createMemoryBackend, type MemoryBackend } from '@nexus/objectstore-memory-test'
import { describe, expect, it } from 'vitest'
import {
  inspectSession,
  REMOVE_FAILPOINTS,
  REMOVE_STORED_FAILPOINTS,
  removeLocalSession,
  removeStoredSession,
  verifySession,
} from '../src/index.ts'

const logger = silentLogger
const died = new Error('died here')

async function endedSession(root: string, backend: MemoryBackend): Promise<void> {
  const session = await openSession({ id: 's1', root, store: backend, logger })
  await session.workspace.writeFile('files/a', 'a')
  await session.close()
}

function dyingAt(at: string): (name: string) => void {
  return (name) => {
    if (name === at) throw died
  }
}

describe('a removal from a store', () => {
  it.each(REMOVE_STORED_FAILPOINTS)(
    'that ends at %s leaves a whole session or none, and can be done again',
    async (at) => {
      const backend = createMemoryBackend()
      await endedSession(tempDir(), backend)
      const store = new ObjectStore(backend, { name: 'memory' })
      await expect(removeStoredSession(store, 's1', { failpoint: dyingAt(at) })).rejects.toBe(died)
      const left = await inspectSession('s1', { store }).catch((error: { code: string }) => error.code)
      const outcome = typeof left === 'string' ? left : (await verifySession(left)).ok
      expect([true, 'NOT_FOUND']).toContain(outcome)
      // Objects go many at a time: nothing may be left already.
      const again = await removeStoredSession(store, 's1').catch((error: { code: string }) => error.code)
      expect(typeof again === 'string' ? again : 'NOT_FOUND').toBe('NOT_FOUND')
      expect([...backend.objects.keys()]).toEqual([])
    },
  )

  it('is refused while its owner looks live, and forced only when told to', async () => {
    const backend = createMemoryBackend()
    const store = new ObjectStore(backend, { name: 'memory' })
    const running = await openSession({ id: 's1', root: tempDir(), store: backend, logger })
    await running.commit()
    const before = backend.objects.size
    await expect(removeStoredSession(store, 's1')).rejects.toMatchObject({ code: 'LOCKED' })
    expect(backend.objects.size).toBe(before)
    await running.abandon()
    await removeStoredSession(store, 's1', { force: true })
    expect(backend.objects.size).toBe(0)
  })
})

describe('a removal from this disk', () => {
  it.each(REMOVE_FAILPOINTS)('that ends at %s leaves a whole session at its place or none', async (at) => {
    const root = tempDir()
    await endedSession(root, createMemoryBackend())
    const sessionsRoot = join(root, 'sessions')
    await expect(removeLocalSession(sessionsRoot, 's1', { failpoint: dyingAt(at) })).rejects.toBe(died)
    const isThere = readdirSync(sessionsRoot).includes('s1')
    expect(isThere).toBe(at === 'remove:locked')
    const files = isThere ? readdirSync(join(sessionsRoot, 's1', 'files')) : ['a']
    expect(files).toEqual(['a'])
  })

  it('is refused while a process has the session open', async () => {
    const root = tempDir()
    const running = await openSession({ id: 's1', root, logger })
    await expect(removeLocalSession(join(root, 'sessions'), 's1')).rejects.toMatchObject({ code: 'LOCKED' })
    await running.workspace.writeFile('files/a', 'still here')
    await running.close()
  })
})
