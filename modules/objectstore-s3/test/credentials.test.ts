import { writeFileSync } from 'node:fs'
import { inspect } from 'node:util'
import { type Logger, ObjectStore, silentLogger } from '@nexus/objectstore'
import { openLoopbackServer } from '@nexus/objectstore-emulators/http'
import { EMULATOR_CREDENTIALS } from '@nexus/objectstore-emulators/s3'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type EmulatedBucket, openEmulatedBucket } from './emulated-bucket.ts'
import { writeCredentials } from './gateway.ts'

let test: EmulatedBucket

beforeEach(async () => {
  test = await openEmulatedBucket()
})

afterEach(async () => {
  vi.unstubAllEnvs()
  await test.remove()
})

const SECRET = 'wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY'

function ini(path: string, accessKeyId: string, secretAccessKey: string, token?: string): void {
  const lines = ['[default]', `aws_access_key_id=${accessKeyId}`, `aws_secret_access_key=${secretAccessKey}`]
  writeFileSync(path, [...lines, ...(token === undefined ? [] : [`aws_session_token=${token}`]), ''].join('\n'))
}

/** No source of credentials that the machine may have. */
function withoutSources(): void {
  for (const name of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN', 'AWS_PROFILE'])
    vi.stubEnv(name, '')
  vi.stubEnv('AWS_EC2_METADATA_DISABLED', 'true')
  vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', '/nonexistent/credentials')
  vi.stubEnv('AWS_CONFIG_FILE', '/nonexistent/config')
}

describe('a refusal', () => {
  it('of a missing key is never a missing object', async () => {
    test.emulator.quirks.hidesMissingKeys = true
    const store = new ObjectStore(await test.open(), { name: 's3' })
    await expect(store.get('s/missing', test.freshPath())).rejects.toMatchObject({ code: 'PERMISSION' })
  })

  it('of a missing bucket is never a missing object either', async () => {
    const store = new ObjectStore(await test.open({}, { bucket: 'nowhere' }), { name: 's3' })
    await expect(store.get('s/a', test.freshPath())).rejects.toMatchObject({ code: 'PRECONDITION' })
    await expect(store.list('s')).rejects.toMatchObject({ code: 'PRECONDITION' })
    await expect(store.delete('s/a')).rejects.toMatchObject({ code: 'PRECONDITION' })
    await expect(store.put('s/a', test.file('x'))).rejects.toMatchObject({ code: 'PRECONDITION', retryable: false })
  })

  it('names operation, key and request, and nothing of the credentials', async () => {
    const token = 'FwoGZXIvYXdzEXAMPLETOKEN'
    const credentialsFile = writeCredentials('AKIAIOSFODNN7EXAMPLE', SECRET, token)
    const store = new ObjectStore(await test.open({}, { credentialsFile }), { name: 's3' })
    const error: unknown = await store.put('s/a', test.file('x')).catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: 'PERMISSION', key: 's/a', op: 'objectstore.put' })
    expect(String(error)).toMatch(/PutObject of "s\/a": InvalidAccessKeyId: .*HTTP 403, request [0-9A-F]{16}/)
    const everything = inspect(error, { depth: 12, showHidden: true })
    for (const secret of [SECRET, token, 'Signature=']) expect(everything).not.toContain(secret)
  })
})

/** Answers every request with an error that repeats all of it, and what only the two sides know, wherever it can. */
async function openEcho(status: number): Promise<{ url: string; close(): Promise<void> }> {
  return openLoopbackServer(async (request, response) => {
    request.resume()
    const said = `${request.headers.authorization} ${String(request.headers['x-amz-security-token'])} ${SECRET}`
    const xml = `<Error><Code>Refused</Code><Message>${said}</Message><Fault>${said}</Fault><HostId>${said}</HostId></Error>`
    response.writeHead(status, said, { 'content-type': 'application/xml', 'x-amz-request-id': said, location: '/b' })
    response.end(status === 200 ? `<a${said}` : xml)
  })
}

describe('a store that answers with the credentials', () => {
  it.each([200, 301, 403, 500])('and %d has them nowhere in the error', async (status) => {
    const token = 'plain words of a session'
    const credentialsFile = writeCredentials('AKIAIOSFODNN7EXAMPLE', SECRET, token)
    const echo = await openEcho(status)
    const store = new ObjectStore(await test.open({ max_attempts: 1 }, { credentialsFile, endpoint: echo.url }), {
      name: 's3',
    })
    const error: unknown = await store.list('s').catch((reason: unknown) => reason)
    await echo.close()
    expect(error).toBeInstanceOf(Error)
    const everything = `${inspect(error, { depth: 12, showHidden: true })} ${JSON.stringify(error)}`
    for (const secret of [SECRET, token, 'AKIAIOSFODNN7EXAMPLE']) expect(everything).not.toContain(secret)
    expect(everything).not.toMatch(/Signature=[0-9a-f]{8}/)
  })
})

describe('credentials that end', () => {
  it('are a permission error until new ones are there, and then work without a new backend', async () => {
    const { accessKeyId, secretAccessKey } = EMULATOR_CREDENTIALS
    const first = { accessKeyId: 'first', secretAccessKey: 'one', sessionToken: 'session-1' }
    test.emulator.credentials.clear()
    test.emulator.credentials.set('first', first)
    ini(test.credentialsFile, 'first', 'one', 'session-1')
    const store = new ObjectStore(await test.open(), { name: 's3' })
    await store.put('s/1', test.file('x'))
    test.emulator.credentials.set('first', { ...first, expiresAtMs: 0 })
    await expect(store.put('s/2', test.file('x'))).rejects.toMatchObject({ code: 'PERMISSION' })
    await expect(store.list('s')).rejects.toMatchObject({ code: 'PERMISSION' })
    test.emulator.credentials.set(accessKeyId, { accessKeyId, secretAccessKey })
    ini(test.credentialsFile, accessKeyId, secretAccessKey)
    await store.put('s/2', test.file('x'))
    expect(await store.list('s')).toHaveLength(2)
  })

  it('are a permission error while the file is gone', async () => {
    const store = new ObjectStore(await test.open(), { name: 's3' })
    writeFileSync(test.credentialsFile, '')
    test.emulator.credentials.clear()
    await expect(store.put('s/1', test.file('x'))).rejects.toMatchObject({ code: 'PERMISSION' })
    await expect(store.put('s/1', test.file('x'))).rejects.toMatchObject({ code: 'PERMISSION' })
  })
})

describe('credentials_file', () => {
  it('that is missing fails the open, naming the key', async () => {
    await expect(test.open({}, { credentialsFile: '/nonexistent/file' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      key: 'core.object_store.credentials_file',
      message: expect.stringContaining('/nonexistent/file'),
    })
  })

  it('gives the profile that AWS_PROFILE names, and fails the open without it', async () => {
    const { accessKeyId, secretAccessKey } = EMULATOR_CREDENTIALS
    const lines = ['[default]', 'aws_access_key_id=x', 'aws_secret_access_key=y']
    const named = ['[eu]', `aws_access_key_id = ${accessKeyId}`, `aws_secret_access_key = ${secretAccessKey}`]
    writeFileSync(test.credentialsFile, [...lines, ...named, ''].join('\n'))
    vi.stubEnv('AWS_PROFILE', 'eu')
    const backend = await test.open()
    await backend.put('s/a', test.file('x'))
    vi.stubEnv('AWS_PROFILE', 'us')
    await expect(test.open()).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      key: 'core.object_store.credentials_file',
      message: expect.stringContaining('[us]'),
    })
  })

  it('is all that counts: other credentials of the environment are not fallen back to', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'wrong')
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'wrong')
    const backend = await test.open()
    await backend.put('s/a', test.file('x'))
  })
})

describe('without credentials_file', () => {
  it("the SDK's chain gives the credentials of the environment", async () => {
    withoutSources()
    vi.stubEnv('AWS_ACCESS_KEY_ID', EMULATOR_CREDENTIALS.accessKeyId)
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', EMULATOR_CREDENTIALS.secretAccessKey)
    const backend = await test.open({}, { credentialsFile: '' })
    await backend.put('s/a', test.file('x'))
    expect(test.emulator.keys(test.bucket)).toEqual(['s/a'])
  })

  it('the open fails, naming the key, where there are certainly none', async () => {
    withoutSources()
    await expect(test.open({}, { credentialsFile: '' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      key: 'core.object_store.credentials_file',
    })
  })

  it.each([
    ['another profile', '[profile eu]\naws_access_key_id = x\naws_secret_access_key = y\n'],
    ['a region', '[default]\nregion = eu-central-1\n[profile eu]\ncredential_process = /bin/false\n'],
  ])('the open fails where the configuration of the machine has only %s', async (_what, text) => {
    withoutSources()
    const path = test.file(text)
    vi.stubEnv('AWS_CONFIG_FILE', path)
    await expect(test.open({}, { credentialsFile: '' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })

  it.each([
    ['the environment', () => vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', 'http://127.0.0.1:1/credentials')],
    ['the profile', () => vi.stubEnv('AWS_CONFIG_FILE', test.file('[default]\ncredential_process = /bin/false\n'))],
  ])('the open goes on with a warning where a source that %s names does not answer', async (_what, name) => {
    withoutSources()
    name()
    const warned: string[] = []
    const logger: Logger = { ...silentLogger, warn: (_fields, line) => warned.push(line) }
    const backend = await test.open({}, { credentialsFile: '' }, logger)
    expect(warned).toEqual([expect.stringContaining('credentials')])
    const store = new ObjectStore(backend, { name: 's3' })
    await expect(store.put('s/a', test.file('x'))).rejects.toMatchObject({ code: 'PERMISSION' })
  })
})

describe('opening', () => {
  it('sends no request to the store', async () => {
    await test.open()
    expect(test.emulator.requests).toEqual([])
  })
})
