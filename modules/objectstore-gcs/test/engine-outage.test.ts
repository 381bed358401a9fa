import { join } from 'node:path'
import { Engine, type Plugin, silentLogger } from '@nexus/engine'
import { register, unregister } from '@nexus/objectstore'
import { type GoogleCredentialsEmulator, openGoogleCredentials } from '@nexus/objectstore-emulators/google-credentials'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openGcsBackend } from '../src/driver.ts'
import { BUCKET, openTestBucket, type TestBucket } from './test-bucket.ts'

const LABEL = 'gcs-with-emulated-tokens'

let credentials: GoogleCredentialsEmulator
let bucket: TestBucket
const engines: Engine[] = []

beforeEach(async () => {
  credentials = await openGoogleCredentials()
  bucket = await openTestBucket({ judge: (token) => (credentials.isGood(token) ? 'accepted' : 'invalid') })
  credentials.writeServiceAccountKey(join(bucket.directory, 'key.json'))
  register(LABEL, (config, options) =>
    openGcsBackend(config, options, { tokenUrl: credentials.tokenUrl, clock: bucket.clock }),
  )
})

afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.stop()
  unregister(LABEL)
  await bucket.remove()
  await credentials.close()
})

const scribe: Plugin = {
  id: 'test.scribe',
  name: 'Scribe',
  version: '1.0.0',
  init({ bus, session }) {
    bus.subscribe('io.input', async (event) => {
      const turn = { turn_id: event.id, session_id: session.id }
      await event.emit('agent.turn.start', turn)
      await session.appendFile('context/conversation.jsonl', `${event.payload.content}\n`)
      await event.emit('agent.turn.end', turn)
    })
  },
}

async function boot(host: string, recallSessionId?: string): Promise<Engine> {
  const root = join(bucket.directory, host)
  const engine = await Engine.fromConfig(
    {
      core: {
        sessions: { root: join(root, 'sessions'), retention: 0 },
        storage: { root },
        object_store: {
          backend: LABEL,
          bucket: BUCKET,
          endpoint: bucket.emulator.url,
          credentials_file: join(bucket.directory, 'key.json'),
          failure_policy: 'degrade',
        },
      },
    },
    { plugins: [scribe], logger: silentLogger, ...(recallSessionId === undefined ? {} : { recallSessionId }) },
  )
  engines.push(engine)
  await engine.boot()
  return engine
}

async function historyOf(engine: Engine): Promise<string> {
  return (await engine.session.readFile('context/conversation.jsonl')).toString()
}

describe('a run whose credentials end in the middle', () => {
  it('goes on degraded, and the boundary after they are back stores everything, without a restart', async () => {
    const engine = await boot('a')
    await engine.submitInput('one')
    expect(engine.status().durability).toMatchObject({ degraded: false, lastSnapshot: { ok: true } })
    credentials.lose()
    await engine.submitInput('two')
    await engine.submitInput('three')
    const degraded = engine.status().durability
    expect(degraded).toMatchObject({ degraded: true, lastSnapshot: { ok: false } })
    expect(degraded?.reason).toContain('access token')
    credentials.restore()
    await engine.submitInput('four')
    expect(engine.status().durability).toMatchObject({ degraded: false, lastSnapshot: { ok: true } })
    await engine.abandon()
    const second = await boot('b', engine.sessionId)
    expect(await historyOf(second)).toBe('one\ntwo\nthree\nfour\n')
  })

  it('is never taken for a session that does not exist by a host that may not look', async () => {
    const engine = await boot('a')
    await engine.submitInput('one')
    await engine.abandon()
    credentials.lose()
    await expect(boot('b', engine.sessionId)).rejects.toThrow(/access token/)
    credentials.restore()
    const third = await boot('c', engine.sessionId)
    expect(await historyOf(third)).toBe('one\n')
  })
})

describe('turns faster than the store takes writes of one name', () => {
  it('are all stored, in order', async () => {
    await bucket.remove()
    bucket = await openTestBucket({ rewriteIntervalMs: 1000 })
    credentials.writeServiceAccountKey(join(bucket.directory, 'key.json'))
    const engine = await boot('a')
    for (let turn = 0; turn < 10; turn++) {
      await engine.submitInput(`turn ${turn}`)
      expect(engine.status().durability).toMatchObject({ degraded: false, lastSnapshot: { ok: true } })
    }
    await engine.abandon()
    const second = await boot('b', engine.sessionId)
    expect((await historyOf(second)).trim().split('\n')).toEqual(
      Array.from({ length: 10 }, (_, turn) => `turn ${turn}`),
    )
  })
})

describe('a store that fails every fifth request and loses every seventh answer', () => {
  it('holds twenty turns whole', async () => {
    const { faults } = bucket.emulator
    let requests = 0
    const every = (n: number) => (): boolean => ++requests % n === 0
    faults.add({ fault: { kind: 'status', status: 503, code: 'backendError' }, on: every(5) })
    let answers = 0
    const isWrite = (operation: string): boolean => operation === 'objects.insert' || operation === 'objects.delete'
    faults.add({ fault: { kind: 'lost-answer' }, on: ({ operation }) => isWrite(operation) && ++answers % 7 === 0 })
    const engine = await boot('a')
    for (let turn = 0; turn < 20; turn++) await engine.submitInput(`turn ${turn}`)
    expect(engine.status().durability).toMatchObject({ degraded: false, lastSnapshot: { ok: true } })
    expect(faults.struck('status')).toBeGreaterThan(5)
    expect(faults.struck('lost-answer')).toBeGreaterThan(5)
    await engine.abandon()
    const second = await boot('b', engine.sessionId)
    expect((await historyOf(second)).trim().split('\n')).toEqual(
      Array.from({ length: 20 }, (_, turn) => `turn ${turn}`),
    )
  })
})
