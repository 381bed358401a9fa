import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '@nexus/host'
import { createMemoryBackend, type MemoryBackend } from '@nexus/objectstore-memory-test'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Engine } from '../src/index.ts'

let base: string

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'nexus-shared-stores-'))
})

afterEach(() => rmSync(base, { recursive: true, force: true }))

/** One run on a machine that does something to the app-scope database of a plugin, and one turn. */
async function run(machine: string, backend: MemoryBackend, work: (engine: Engine) => void): Promise<void> {
  const root = join(base, machine)
  const config = { core: { sessions: { root: join(root, 'sessions') }, storage: { root } } }
  const engine = await Engine.fromConfig(config, { backend, logger: silentLogger })
  await engine.boot()
  work(engine)
  await engine.bus.emit('agent.turn.start', { turn_id: 't', session_id: engine.sessionId })
  await engine.bus.emit('agent.turn.end', { turn_id: 't', session_id: engine.sessionId })
  await engine.stop()
}

const put =
  (value: string) =>
  ({ storage }: Engine): void =>
    storage.open('app', 'nexus.budget').put('owner', value)

describe('a database that spans sessions, over a backend that the program hands over', () => {
  it('never replaces that of another bucket, although this machine stored one of its own elsewhere', async () => {
    const [one, two] = [createMemoryBackend(), createMemoryBackend()]
    await run('other', two, put('other machine'))
    await run('here', one, put('this machine'))
    await run('here', two, (engine) => {
      put('this machine, second bucket')(engine)
      expect(engine.status().durability?.refusedShared).toEqual([])
    })
    let found: string | undefined
    await run('fresh', two, ({ storage }) => {
      found = storage.open('app', 'nexus.budget').get('owner')?.toString()
    })
    expect(found).toBe('other machine')
  })

  it('goes from host to host with everything that each one added', async () => {
    const bucket = createMemoryBackend()
    const add =
      (key: string) =>
      ({ storage }: Engine): void =>
        storage.open('app', 'nexus.budget').put(key, key)
    for (const [machine, key] of [
      ['a', '1'],
      ['b', '2'],
      ['a', '3'],
      ['b', '4'],
    ] as const)
      await run(machine, bucket, add(key))
    let found: string[] = []
    await run('fresh', bucket, ({ storage }) => {
      found = storage.open('app', 'nexus.budget').list()
    })
    expect(found).toEqual(['1', '2', '3', '4'])
  })
})
