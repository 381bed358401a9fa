import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AwsCredentialEndpoints, openAwsCredentialEndpoints } from './endpoints.ts'

let endpoints: AwsCredentialEndpoints

beforeEach(async () => {
  endpoints = await openAwsCredentialEndpoints()
})

afterEach(() => endpoints.close())

const TTL = { 'x-aws-ec2-metadata-token-ttl-seconds': '60' }
const ROLES = '/latest/meta-data/iam/security-credentials/'

async function statusOf(path: string, init: RequestInit = {}): Promise<number> {
  return (await fetch(endpoints.url + path, init)).status
}

describe('the instance metadata service', () => {
  it('gives keys to those who bring a token, and to nobody else', async () => {
    expect(await statusOf(ROLES)).toBe(401)
    expect(await statusOf(ROLES, { headers: { 'x-aws-ec2-metadata-token': 'made-up' } })).toBe(401)
    const token = await (await fetch(`${endpoints.url}/latest/api/token`, { method: 'PUT', headers: TTL })).text()
    const headers = { 'x-aws-ec2-metadata-token': token }
    const role = await (await fetch(endpoints.url + ROLES, { headers })).text()
    const answer: unknown = await (await fetch(endpoints.url + ROLES + role, { headers })).json()
    expect(answer).toMatchObject({ Code: 'Success', AccessKeyId: endpoints.issuer.issued[0]?.accessKeyId })
    expect(await statusOf(`${ROLES}another-role`, { headers })).toBe(404)
  })

  it('gives no token without a lifetime, to a GET, or through a proxy', async () => {
    expect(await statusOf('/latest/api/token', { method: 'PUT' })).toBe(400)
    expect(await statusOf('/latest/api/token', { headers: TTL })).toBe(401)
    const forwarded = { ...TTL, 'x-forwarded-for': '10.0.0.1' }
    expect(await statusOf('/latest/api/token', { method: 'PUT', headers: forwarded })).toBe(403)
  })
})

describe('the container endpoint', () => {
  it("asks for the pod's token where there is one", async () => {
    expect(await statusOf('/v1/credentials')).toBe(200)
    endpoints.container.authorizationToken = 'token'
    expect(await statusOf('/v1/credentials')).toBe(401)
    expect(await statusOf('/v1/credentials', { headers: { authorization: 'token' } })).toBe(200)
  })
})

describe('STS', () => {
  it.each([
    ['the right token', { WebIdentityToken: 'web-identity-token', RoleArn: 'arn:aws:iam::1:role/r' }, 200],
    ['another token', { WebIdentityToken: 'forged', RoleArn: 'arn:aws:iam::1:role/r' }, 400],
    ['no role', { WebIdentityToken: 'web-identity-token' }, 400],
  ])('answers %s', async (_name, fields, status) => {
    const body = new URLSearchParams({ Action: 'AssumeRoleWithWebIdentity', ...fields } as Record<string, string>)
    expect(await statusOf('/', { method: 'POST', body })).toBe(status)
  })
})

describe('planned faults', () => {
  it('strike the operation that they name', async () => {
    endpoints.faults.add({
      fault: { kind: 'status', status: 503, code: 'busy' },
      on: ({ operation }) => operation === 'container.credentials',
      times: 1,
    })
    expect([await statusOf('/v1/credentials'), await statusOf('/v1/credentials')]).toEqual([503, 200])
    expect(endpoints.seen).toEqual(['container.credentials', 'container.credentials'])
  })
})
