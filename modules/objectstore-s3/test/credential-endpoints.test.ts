import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ObjectStore } from '@nexus/objectstore'
import { type AwsCredentialEndpoints, openAwsCredentialEndpoints } from '@nexus/objectstore-emulators/aws-credentials'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type EmulatedBucket, openEmulatedBucket } from './emulated-bucket.ts'

const LIFETIME_MS = 15 * 60 * 1000

let test: EmulatedBucket
let endpoints: AwsCredentialEndpoints

beforeEach(async () => {
  test = await openEmulatedBucket()
  // Only keys that an endpoint has handed out are known, and only until they end.
  test.emulator.credentials.clear()
  endpoints = await openAwsCredentialEndpoints({
    lifetimeMs: LIFETIME_MS,
    onIssue: (credentials) => test.emulator.credentials.set(credentials.accessKeyId, credentials),
  })
  // The SDK, the signatures, the endpoints and the store read one clock, so a day passes in no time. Timers stay real.
  vi.useFakeTimers({ toFake: ['Date'] })
  for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) vi.stubEnv(name, undefined)
  vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', '/nonexistent/credentials')
  vi.stubEnv('AWS_CONFIG_FILE', '/nonexistent/config')
})

afterEach(async () => {
  vi.useRealTimers()
  vi.unstubAllEnvs()
  await endpoints.close()
  await test.remove()
})

interface Source {
  name: string
  configure: () => void
  /** What must have been asked for once a first key was there. */
  firstCalls: string[]
}

const sources: Source[] = [
  {
    name: 'the instance metadata service',
    configure: () => vi.stubEnv('AWS_EC2_METADATA_SERVICE_ENDPOINT', endpoints.url),
    firstCalls: ['imds.token', 'imds.role', 'imds.credentials'],
  },
  {
    name: 'the container endpoint with the token of a file',
    configure: () => {
      const tokenFile = join(test.directory, 'pod-token')
      writeFileSync(tokenFile, 'pod-identity-token')
      endpoints.container.authorizationToken = 'pod-identity-token'
      vi.stubEnv('AWS_CONTAINER_CREDENTIALS_FULL_URI', endpoints.containerUrl)
      vi.stubEnv('AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE', tokenFile)
    },
    firstCalls: ['container.credentials'],
  },
  {
    name: 'STS with a web identity',
    configure: () => {
      const tokenFile = join(test.directory, 'web-token')
      writeFileSync(tokenFile, endpoints.sts.webIdentityToken)
      vi.stubEnv('AWS_ENDPOINT_URL_STS', endpoints.url)
      vi.stubEnv('AWS_WEB_IDENTITY_TOKEN_FILE', tokenFile)
      vi.stubEnv('AWS_ROLE_ARN', 'arn:aws:iam::123456789012:role/nexus')
    },
    firstCalls: ['sts.AssumeRoleWithWebIdentity'],
  },
]

function pass(ms: number): void {
  vi.setSystemTime(Date.now() + ms)
}

async function openStore(): Promise<ObjectStore> {
  return new ObjectStore(await test.open({}, { credentialsFile: '' }), { name: 's3' })
}

/** The key ids that requests were signed with, each once. */
function keysUsed(): (string | undefined)[] {
  const ids = test.emulator.requests.map(({ headers }) => /Credential=([^/]+)/.exec(headers.authorization ?? '')?.[1])
  return [...new Set(ids)]
}

describe.each(sources)('credentials of $name', ({ configure, firstCalls }) => {
  it('are found at open, and sign requests with their session token', async () => {
    configure()
    const store = await openStore()
    expect(endpoints.seen).toEqual(firstCalls)
    await store.put('s/a', test.file('x'))
    await store.put('s/b', test.file('x'))
    expect(endpoints.seen).toEqual(firstCalls)
    expect(keysUsed()).toEqual([endpoints.issuer.issued[0]?.accessKeyId])
  })

  it('are renewed ahead of their end, beside the work, and no request is refused', async () => {
    configure()
    const store = await openStore()
    const path = test.file('x')
    for (let hour = 0; hour < 12; hour++) {
      await store.put(`s/${hour}`, path)
      pass(LIFETIME_MS - 4 * 60 * 1000)
      // Asks for new keys, and goes out with the old ones.
      await store.put(`s/${hour}`, path)
      await vi.waitFor(() => expect(endpoints.issuer.issued).toHaveLength(hour + 2))
    }
    expect(keysUsed()).toEqual(endpoints.issuer.issued.slice(0, -1).map(({ accessKeyId }) => accessKeyId))
  })

  it('that ended during a pause are renewed before the next request', async () => {
    configure()
    const store = await openStore()
    await store.put('s/a', test.file('x'))
    pass(24 * 60 * 60 * 1000)
    await store.put('s/b', test.file('x'))
    expect(keysUsed()).toEqual(endpoints.issuer.issued.map(({ accessKeyId }) => accessKeyId))
  })

  it('that are lost are a permission error, and work again on the same backend once they are back', async () => {
    configure()
    const store = await openStore()
    await store.put('s/a', test.file('x'))
    const drop = endpoints.faults.add({ fault: { kind: 'status', status: 403, code: 'AccessDenied' } })
    pass(LIFETIME_MS + 1000)
    await expect(store.put('s/b', test.file('x'))).rejects.toMatchObject({ code: 'PERMISSION' })
    await expect(store.list('s')).rejects.toMatchObject({ code: 'PERMISSION' })
    drop()
    await store.put('s/b', test.file('x'))
    expect(await store.list('s')).toHaveLength(2)
  })

  it('that were revoked before their end are resolved again after the first refusal', async () => {
    configure()
    const store = await openStore()
    await store.put('s/a', test.file('x'))
    test.emulator.credentials.clear()
    await expect(store.put('s/b', test.file('x'))).rejects.toMatchObject({ code: 'PERMISSION' })
    await store.put('s/b', test.file('x'))
  })

  it('that do not come in time are no reason to fail the open', async () => {
    configure()
    const drop = endpoints.faults.add({ fault: { kind: 'silence' } })
    const store = await openStore()
    drop()
    await store.put('s/a', test.file('x'))
  })
})

describe('a token file', () => {
  it('that the platform rotates is read again', async () => {
    sources[2]?.configure()
    const store = await openStore()
    await store.put('s/a', test.file('x'))
    endpoints.sts.webIdentityToken = 'rotated'
    writeFileSync(join(test.directory, 'web-token'), 'rotated')
    pass(LIFETIME_MS + 1000)
    await store.put('s/b', test.file('x'))
  })
})
