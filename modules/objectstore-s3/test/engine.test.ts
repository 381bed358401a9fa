import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Engine, type Plugin, silentLogger } from '@nexus/engine'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import '../src/index.ts'
import { type EmulatedBucket, openEmulatedBucket } from './emulated-bucket.ts'
import { writeCredentials } from './gateway.ts'
import { openAwsCredentialEndpoints } from '@nexus/objectstore-emulators/aws-credentials'
import { EMULATOR_CREDENTIALS } from '@nexus/objectstore-emulators/s3'

/** Answers each input with a line of conversation, and ends the turn. */
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

let test: EmulatedBucket
let root: string
const engines: Engine[] = []

beforeEach(async () => {
  test = await openEmulatedBucket()
  root = mkdtempSync(join(tmpdir(), 'nexus-s3-engine-'))
})

afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.stop().catch(() => undefined)
  await test.remove()
  rmSync(root, { recursive: true })
})

async function boot(
  host: string,
  { recallSessionId, ...store }: { recallSessionId?: string; on_mixed?: 'fail' } = {},
): Promise<Engine> {
  const data = join(root, host)
  const engine = await Engine.fromConfig(
    {
      core: {
        sessions: { root: join(data, 'sessions'), retention: 0 },
        storage: { root: data },
        object_store: {
          backend: 's3',
          bucket: test.bucket,
          prefix: 'prod',
          endpoint: test.emulator.url,
          credentials_file: test.credentialsFile,
          options: { max_attempts: 3, state_directory: join(root, 'state') },
          ...store,
        },
      },
    },
    { plugins: [scribe], logger: silentLogger, ...(recallSessionId === undefined ? {} : { recallSessionId }) },
  )
  engines.push(engine)
  await engine.boot()
  return engine
}

async function history(engine: Engine): Promise<string> {
  return (await engine.session.readFile('context/conversation.jsonl')).toString()
}

async function turns(engine: Engine, first: number, last: number): Promise<void> {
  for (let turn = first; turn <= last; turn++) {
    expect(await engine.submitInput(`turn ${turn}`)).toMatchObject({ accepted: true })
  }
}

function lines(last: number): string {
  return Array.from({ length: last }, (_, index) => `turn ${index + 1}\n`).join('')
}

describe('credentials that end in the middle of a run', () => {
  it('degrade it, and once they are renewed the next boundary commits all that is pending, without a restart', async () => {
    const first = await boot('a')
    await turns(first, 1, 4)
    const committed = first.status().durability?.generation
    const { accessKeyId, secretAccessKey } = EMULATOR_CREDENTIALS
    test.emulator.credentials.set(accessKeyId, { accessKeyId, secretAccessKey, expiresAtMs: 0 })
    await turns(first, 5, 7)
    expect(first.status().durability).toMatchObject({ degraded: true, generation: committed })
    expect(first.status().durability?.reason).toMatch(/ExpiredToken/)
    expect(JSON.stringify(first.status())).not.toContain(secretAccessKey)
    test.emulator.credentials.set(accessKeyId, { accessKeyId, secretAccessKey })
    await turns(first, 8, 8)
    await expect.poll(() => first.status().durability?.degraded, { timeout: 20_000 }).toBe(false)
    await first.stop()
    const second = await boot('b', { recallSessionId: first.sessionId })
    expect(await history(second)).toBe(lines(8))
  })

  it('make a host that has never seen the session fail, and never begin it anew', async () => {
    const first = await boot('a')
    await turns(first, 1, 2)
    await first.stop()
    test.credentialsFile = writeCredentials('nobody', 'nothing')
    await expect(boot('b', { recallSessionId: first.sessionId })).rejects.toThrow(/InvalidAccessKeyId/)
    test.credentialsFile = writeCredentials(EMULATOR_CREDENTIALS.accessKeyId, EMULATOR_CREDENTIALS.secretAccessKey)
    expect(await history(await boot('c', { recallSessionId: first.sessionId }))).toBe(lines(2))
  })
})

describe('workload identity that is lost in the middle of a run', () => {
  afterEach(() => vi.unstubAllEnvs())

  it('degrades it, and it recovers on the same backend when the endpoint gives keys again', async () => {
    for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) vi.stubEnv(name, undefined)
    vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', '/nonexistent/credentials')
    vi.stubEnv('AWS_CONFIG_FILE', '/nonexistent/config')
    const { credentials } = test.emulator
    credentials.clear()
    const endpoints = await openAwsCredentialEndpoints({
      onIssue: (issued) => credentials.set(issued.accessKeyId, issued),
    })
    try {
      vi.stubEnv('AWS_EC2_METADATA_SERVICE_ENDPOINT', endpoints.url)
      test.credentialsFile = ''
      const first = await boot('a')
      await turns(first, 1, 2)
      expect(first.status().durability).toMatchObject({ degraded: false })
      // The role is taken away: the keys at hand are refused, and there are no others.
      const drop = endpoints.faults.add({ fault: { kind: 'status', status: 404, code: 'Not Found' } })
      credentials.clear()
      await turns(first, 3, 4)
      expect(first.status().durability).toMatchObject({ degraded: true })
      drop()
      await turns(first, 5, 5)
      await expect.poll(() => first.status().durability?.degraded, { timeout: 20_000 }).toBe(false)
      await first.stop()
      expect(await history(await boot('b', { recallSessionId: first.sessionId }))).toBe(lines(5))
    } finally {
      for (const engine of engines.splice(0)) await engine.stop().catch(() => undefined)
      await endpoints.close()
    }
  })
})

describe('a run over a store in trouble', () => {
  it('commits every turn while each PUT is throttled twice', async () => {
    test.emulator.faults.add({
      fault: { kind: 'status', status: 503, code: 'SlowDown' },
      on: ({ operation }) => operation === 'PutObject',
      times: 2,
      perKey: true,
    })
    const first = await boot('a')
    await turns(first, 1, 2)
    await first.stop()
    expect(test.emulator.faults.struck('status')).toBeGreaterThan(2)
    test.emulator.faults.clear()
    expect(await history(await boot('b', { recallSessionId: first.sessionId }))).toBe(lines(2))
  })

  it('is not disturbed by the placeholders of a console', async () => {
    const first = await boot('a')
    await turns(first, 1, 2)
    await first.stop()
    const id = first.sessionId
    for (const key of ['', `sessions/`, `sessions/${id}/`, `sessions/${id}/context/`, `sessions/${id}/files/`]) {
      await test.emulator.plant(test.bucket, `prod/${key}`, '')
    }
    const second = await boot('b', { recallSessionId: id })
    expect(await history(second)).toBe(lines(2))
    await turns(second, 3, 3)
    await second.stop()
    expect(await history(await boot('c', { recallSessionId: id }))).toBe(lines(3))
  })

  it('fails to resume while listings fail, and never begins the session anew', async () => {
    const first = await boot('a')
    await turns(first, 1, 2)
    await first.stop()
    const drop = test.emulator.faults.add({
      fault: { kind: 'status', status: 500, code: 'InternalError' },
      on: ({ operation }) => operation !== 'PutObject',
    })
    await expect(boot('b', { recallSessionId: first.sessionId })).rejects.toThrow(/InternalError/)
    drop()
    expect(await history(await boot('b', { recallSessionId: first.sessionId }))).toBe(lines(2))
  })

  it('notices a stored object whose bytes are cut, by its digest', async () => {
    const first = await boot('a')
    await turns(first, 1, 2)
    await first.stop()
    const key = test.emulator.keys(test.bucket).find((each) => each.endsWith('conversation.jsonl')) ?? ''
    const bytes = await test.emulator.read(test.bucket, key)
    await test.emulator.plant(test.bucket, key, bytes?.subarray(0, 3) ?? '')
    const resumed = boot('b', { recallSessionId: first.sessionId, on_mixed: 'fail' })
    await expect(resumed).rejects.toThrow(/conversation\.jsonl/)
  })
})
