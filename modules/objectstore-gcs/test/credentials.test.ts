import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { isNexusError, type Logger, ObjectStore, redactSecrets, silentLogger } from '@nexus/objectstore'
import { type GoogleCredentialsEmulator, openGoogleCredentials } from '@nexus/objectstore-emulators/google-credentials'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { GcsBackend } from '../src/driver.ts'
import { openTestBucket, type TestBucket } from './test-bucket.ts'

let credentials: GoogleCredentialsEmulator
let bucket: TestBucket
let lastToken: string | undefined

beforeEach(async () => {
  credentials = await openGoogleCredentials()
  bucket = await openTestBucket({
    judge: (token) => {
      lastToken = token
      return credentials.isGood(token) ? 'accepted' : 'invalid'
    },
  })
})

afterEach(async () => {
  vi.useRealTimers()
  await bucket.remove()
  await credentials.close()
})

/** Warnings of the backend. */
function listening(): { logger: Logger; warnings: string[] } {
  const warnings: string[] = []
  return { warnings, logger: { ...silentLogger, warn: (_fields, message) => void warnings.push(message) } }
}

type Chain = 'key file' | 'ADC key file' | 'ADC user file' | 'metadata server'

/** Sets a machine up with one kind of credentials and opens the bucket there. */
async function openWith(chain: Chain, options: Record<string, unknown> = {}): Promise<GcsBackend> {
  const path = join(bucket.directory, 'credentials.json')
  const internals = { tokenUrl: credentials.tokenUrl }
  if (chain === 'key file') {
    credentials.writeServiceAccountKey(path)
    return bucket.open({ credentialsFile: path, options }, internals)
  }
  if (chain === 'metadata server') {
    vi.stubEnv('METADATA_SERVER_DETECTION', undefined)
    vi.stubEnv('GCE_METADATA_HOST', credentials.metadataHost)
    return bucket.open({ options }, internals)
  }
  if (chain === 'ADC key file') credentials.writeServiceAccountKey(path)
  else credentials.writeAuthorizedUser(path)
  vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', path)
  return bucket.open({ options }, internals)
}

const chains: [Chain, string][] = [
  ['key file', 'service_account'],
  ['ADC key file', 'service_account'],
  ['ADC user file', 'authorized_user'],
  ['metadata server', 'metadata'],
]

describe.each(chains)('credentials of a %s', (chain, source) => {
  it('resolve, without a token being asked for at open', async () => {
    const backend = await openWith(chain)
    expect(credentials.issued()).toEqual([])
    await backend.put('k', bucket.file('x'))
    expect((await backend.list('')).map(({ key }) => key)).toEqual(['k'])
    expect(credentials.issued().map((each) => each.source)).toEqual([source])
  })

  it('are refreshed before they end, in mid-run, and no request meets a stale one', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    credentials.setLifetime(10 * 60_000)
    const backend = await openWith(chain)
    for (let minute = 0; minute < 30; minute += 3) {
      await backend.put('k', bucket.file(`minute ${minute}`))
      vi.setSystemTime(Date.now() + 3 * 60_000)
    }
    const tokens = credentials.issued().length
    expect(tokens).toBeGreaterThan(2)
    expect(tokens).toBeLessThan(10)
    // One request a put: none was refused and made again.
    expect(bucket.emulator.log).toHaveLength(10)
  })

  it('that are lost are access errors, and work again once they are back, on the same backend', async () => {
    const backend = await openWith(chain)
    const store = new ObjectStore(backend, { name: 'gcs' })
    await store.put('k', bucket.file('one'))
    credentials.lose()
    for (const work of [
      () => store.put('k', bucket.file('two')),
      () => store.list(''),
      () => store.hydrate('', bucket.freshPath()),
    ]) {
      const error: unknown = await work().catch((thrown: unknown) => thrown)
      expect(isNexusError(error, 'PERMISSION')).toBe(true)
    }
    const created: unknown = await store.putIfAbsent('new', bucket.file('x')).catch((thrown: unknown) => thrown)
    expect(isNexusError(created, 'PERMISSION')).toBe(true)
    credentials.restore()
    await store.put('k', bucket.file('two'))
    expect(await store.putIfAbsent('new', bucket.file('x'))).toBe(true)
  })
})

describe('a token', () => {
  it('that the store refuses is renewed once, for conditional creates too: nothing was done yet', async () => {
    const backend = await openWith('metadata server')
    await backend.put('k', bucket.file('x'))
    credentials.lose()
    credentials.restore()
    expect(await backend.putIfAbsent?.('new', bucket.file('x'))).toBe(true)
    expect(credentials.issued()).toHaveLength(2)
  })

  it('that nobody answers for is given up in time, and asked for anew', async () => {
    const backend = await openWith('key file')
    credentials.faults.add({ fault: { kind: 'silence' }, times: 1 })
    const put = backend.put('k', bucket.file('x'))
    await vi.waitFor(() => expect(credentials.faults.struck('silence')).toBe(1))
    bucket.clock.expire(10_000)
    await put
    expect(await bucket.client.keys().catch(() => 'needs a token')).toBe('needs a token')
  })

  it('that is waited for does not hold up an abort', async () => {
    const backend = await openWith('key file')
    credentials.faults.add({ fault: { kind: 'silence' } })
    const abort = new AbortController()
    const put = backend.put('k', bucket.file('x'), { signal: abort.signal })
    await vi.waitFor(() => expect(credentials.faults.struck('silence')).toBe(1))
    abort.abort(new Error('enough'))
    await expect(put).rejects.toThrow('enough')
  })

  it('endpoint in an outage is an outage and no lost credential', async () => {
    const backend = await openWith('key file', { retry_timeout_ms: 0 })
    credentials.faults.add({ fault: { kind: 'status', status: 503, code: 'unavailable' } })
    const error: unknown = await backend.list('').catch((thrown: unknown) => thrown)
    expect(backend.classify(error)).toBe('temporary')
  })

  it.each(chains)('and what it was got with stand in no error of a %s', async (chain) => {
    const backend = await openWith(chain)
    await backend.put('k', bucket.file('x'))
    const store = new ObjectStore(backend, { name: 'gcs' })
    const errors: unknown[] = []
    const fail = async (): Promise<void> => {
      for (const work of [
        () => backend.list(''),
        () => store.put('k', bucket.file('y')),
        () => backend.get('k', bucket.freshPath()),
      ]) {
        errors.push(await work().catch((thrown: unknown) => thrown))
      }
    }
    bucket.emulator.faults.add({ fault: { kind: 'status', status: 400, code: 'invalid' } })
    await fail()
    bucket.emulator.faults.clear()
    bucket.emulator.faults.add({ fault: { kind: 'lost-answer' } })
    bucket.emulator.faults.add({ fault: { kind: 'download-reset', afterBytes: 0 } })
    await fail()
    bucket.emulator.faults.clear()
    credentials.lose()
    await fail()
    expect(errors.every((error) => error instanceof Error)).toBe(true)
    const text = inspect(errors, { depth: 20, showHidden: true })
    for (const secret of [
      'ya29.emulated-',
      'PRIVATE KEY',
      'emulated-refresh',
      'emulated-client-secret',
      'assertion',
      'Bearer ey',
    ]) {
      expect(text).not.toContain(secret)
    }
  })
})

describe('whatever an answer spells, it shows nothing of', () => {
  it.each<[Chain, (file: Record<string, string>) => string | undefined]>([
    ['key file', (file) => file['private_key']],
    ['key file', (file) => file['private_key']?.replaceAll(/-----[^-]*-----|\n/g, '')],
    ['ADC user file', (file) => file['refresh_token']],
  ])('the secret of a %s, nor of the token in use', async (chain, secretOf) => {
    const backend = await openWith(chain)
    await backend.list('')
    const text = readFileSync(join(bucket.directory, 'credentials.json'), 'utf8')
    for (const secret of [secretOf(JSON.parse(text) as Record<string, string>), lastToken]) {
      const spelled = Buffer.from(String(secret).trim()).toString('base64').replaceAll('=', '')
      expect(redactSecrets(`no ${spelled} here`)).toBe('no [redacted] here')
    }
  })
})

describe('opening', () => {
  it('without any credentials fails naming the key, unless an endpoint says that none are needed', async () => {
    await expect(bucket.open({ endpoint: '' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      key: 'core.object_store.credentials_file',
    })
    const { logger, warnings } = listening()
    await bucket.open({}, { logger })
    expect(warnings).toEqual(['no credentials found: requests to the endpoint go unauthenticated'])
  })

  it('ignores a region with one warning', async () => {
    const { logger, warnings } = listening()
    const path = join(bucket.directory, 'key.json')
    credentials.writeServiceAccountKey(path)
    await bucket.open({ region: 'eu-west-1', credentialsFile: path }, { logger })
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toContain('core.object_store.region')
  })

  it.each([
    ['missing', undefined, /can not be read/],
    ['not JSON', '{"private_key": "s3cret', /is not JSON/],
    [
      'of another type',
      '{"type": "external_account", "token_url": "s3cret"}',
      /external_account.*only "service_account"/,
    ],
    ['of a user', '{"type": "authorized_user", "refresh_token": "s3cret"}', /authorized_user/],
    ['without a type', '["s3cret"]', /no key/],
    ['null', 'null', /no key/],
    ['without a key', '{"type": "service_account", "client_email": "a@b"}', /lacks a usable/],
    [
      'with a broken key',
      '{"type": "service_account", "client_email": "a@b", "private_key": "s3cret"}',
      /lacks a usable/,
    ],
  ])('refuses a credentials file that is %s', async (_what, content, message) => {
    const path = join(bucket.directory, 'key.json')
    if (content !== undefined) writeFileSync(path, content)
    const error: unknown = await bucket.open({ credentialsFile: path }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', key: 'core.object_store.credentials_file' })
    expect((error as Error).message).toMatch(message)
    expect(inspect(error, { depth: 10 })).not.toContain('s3cret')
  })

  it('fails when the default credentials are named and broken', async () => {
    vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', join(bucket.directory, 'nowhere.json'))
    await expect(bucket.open({ endpoint: '' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })

  it('does not fail when a metadata server that was named does not answer yet, and works when it does', async () => {
    vi.stubEnv('METADATA_SERVER_DETECTION', undefined)
    vi.stubEnv('GCE_METADATA_HOST', credentials.metadataHost)
    const drop503 = credentials.faults.add({ fault: { kind: 'status', status: 503, code: 'unavailable' } })
    const { logger, warnings } = listening()
    const backend = await bucket.open({ options: { retry_timeout_ms: 0 } }, { logger })
    expect(warnings[0]).toContain('can not be looked up now')
    const error: unknown = await backend.list('').catch((thrown: unknown) => thrown)
    expect(backend.classify(error)).toBe('temporary')
    drop503()
    expect(await backend.list('')).toEqual([])
  })

  it('does not fail when looking credentials up takes too long', async () => {
    vi.stubEnv('METADATA_SERVER_DETECTION', undefined)
    vi.stubEnv('GCE_METADATA_HOST', credentials.metadataHost)
    credentials.faults.add({ fault: { kind: 'silence' }, times: 1 })
    const { logger, warnings } = listening()
    const opening = bucket.open({ endpoint: '' }, { logger })
    await vi.waitFor(() => expect(credentials.faults.struck('silence')).toBe(1))
    bucket.clock.expire(5_000)
    await opening
    expect(warnings[0]).toContain('can not be looked up now')
  })

  it("takes gcloud's own file where it is", async () => {
    const home = join(bucket.directory, '.config', 'gcloud')
    mkdirSync(home, { recursive: true })
    credentials.writeAuthorizedUser(join(home, 'application_default_credentials.json'))
    const backend = await bucket.open({}, { tokenUrl: credentials.tokenUrl })
    expect(await backend.list('')).toEqual([])
  })
})
