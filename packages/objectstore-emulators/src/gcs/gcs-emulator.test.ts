import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it } from 'vitest'
import { type EmulatorUnderTest, openEmulatorUnderTest } from './emulator-client.ts'
import type { GcsEmulatorOptions } from './gcs-emulator.ts'

let under: EmulatorUnderTest

async function open(options?: GcsEmulatorOptions): Promise<EmulatorUnderTest> {
  under = await openEmulatorUnderTest(options)
  return under
}

afterEach(() => under.emulator.close())

async function failure(answer: Response): Promise<{ status: number; reason: string; message: string }> {
  const { error } = (await answer.json()) as {
    error: { code: number; message: string; errors: { reason: string }[] }
  }
  expect(error.code).toBe(answer.status)
  return { status: answer.status, reason: error.errors[0]?.reason ?? '', message: error.message }
}

describe('objects', () => {
  it('are inserted as media, read, described and deleted', async () => {
    const { insert, read, api } = await open()
    const inserted = (await (await insert('a/b c', 'hello')).json()) as Record<string, unknown>
    expect(inserted).toMatchObject({ name: 'a/b c', bucket: 'b', size: '5', crc32c: 'mnG7TA==', metageneration: '1' })
    const answer = await read('a/b c')
    expect(await answer.text()).toBe('hello')
    expect(answer.headers.get('x-goog-hash')).toBe('crc32c=mnG7TA==,md5=XUFAKrxLKna5cZ2REBfFkg==')
    expect(answer.headers.get('x-goog-generation')).toBe(inserted['generation'])
    expect(await (await api('/b/b/o/a%2Fb%20c')).json()).toEqual(inserted)
    expect((await api('/b/b/o/a%2Fb%20c', { method: 'DELETE' })).status).toBe(204)
    expect((await read('a/b c')).status).toBe(404)
  })

  it('keep the metadata of a multipart insert', async () => {
    const { insertRelated, read, api } = await open()
    const metadata = { name: 'k', storageClass: 'NEARLINE', crc32c: 'mnG7TA==' }
    expect((await insertRelated(metadata, 'hello')).status).toBe(200)
    expect(await (await read('k')).text()).toBe('hello')
    expect(await (await api('/b/b/o/k')).json()).toMatchObject({ storageClass: 'NEARLINE', contentType: 'text/plain' })
  })

  it.each([
    ['CRC32C', { crc32c: 'AAAAAA==' }],
    ['MD5 hash', { md5Hash: 'AAAAAAAAAAAAAAAAAAAAAA==' }],
  ])('are refused when their content has another %s, and leave nothing', async (what, hash) => {
    const { insertRelated, read } = await open()
    const refused = await failure(await insertRelated({ name: 'k', ...hash }, 'hello'))
    expect(refused).toMatchObject({ status: 400, reason: 'invalid' })
    expect(refused.message).toContain(`doesn't match calculated ${what}`)
    expect((await read('k')).status).toBe(404)
  })

  it.each(['a\nb', 'a\rb', '.', '..', '.well-known/acme-challenge/x', 'x'.repeat(1025)])(
    'have no name like %j',
    async (name) => {
      const { insert } = await open()
      expect((await insert(name, 'x')).status).toBe(400)
    },
  )

  it('are missing in another way than their bucket is', async () => {
    const { api } = await open()
    expect(await failure(await api('/b/b/o/k'))).toMatchObject({ status: 404, message: 'No such object: b/k' })
    const elsewhere = await failure(await api('/b/none/o/k'))
    expect(elsewhere).toMatchObject({ status: 404, message: 'The specified bucket does not exist.' })
    expect((await api('/b/none/o')).status).toBe(404)
  })
})

describe('preconditions', () => {
  it('create a name once, whoever comes at the same time', async () => {
    const { insert } = await open()
    const answers = await Promise.all([1, 2, 3, 4, 5].map((n) => insert('k', String(n), { ifGenerationMatch: '0' })))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 412)).toHaveLength(4)
  })

  it('hold requests to a generation', async () => {
    const { insert, api } = await open()
    const { generation } = (await (await insert('k', 'one')).json()) as { generation: string }
    expect((await insert('k', 'two', { ifGenerationMatch: generation })).status).toBe(200)
    expect(await failure(await insert('k', 'three', { ifGenerationMatch: generation }))).toMatchObject({
      status: 412,
      reason: 'conditionNotMet',
    })
    expect((await api(`/b/b/o/k?ifMetagenerationMatch=2`)).status).toBe(412)
    expect((await api(`/b/b/o/k?generation=${generation}`)).status).toBe(404)
  })
})

describe('downloads', () => {
  it('give ranges, and refuse those behind the end', async () => {
    const { insert, read } = await open()
    await insert('k', '0123456789')
    const middle = await read('k', { range: 'bytes=2-4' })
    expect([middle.status, await middle.text()]).toEqual([206, '234'])
    expect(middle.headers.get('content-range')).toBe('bytes 2-4/10')
    expect(await (await read('k', { range: 'bytes=8-' })).text()).toBe('89')
    expect(await (await read('k', { range: 'bytes=-3' })).text()).toBe('789')
    expect((await read('k', { range: 'bytes=10-' })).status).toBe(416)
  })

  it('unpack gzipped content for those who do not take it', async () => {
    const { emulator, api } = await open()
    const packed = gzipSync('hello')
    const query = 'uploadType=media&name=k&contentEncoding=gzip'
    await fetch(`${emulator.url}/upload/storage/v1/b/b/o?${query}`, { method: 'POST', body: new Uint8Array(packed) })
    const plain = await api('/b/b/o/k?alt=media', { headers: { 'accept-encoding': 'identity' } })
    expect(plain.headers.get('content-length')).toBe(null)
    expect(plain.headers.get('x-goog-stored-content-length')).toBe(String(packed.length))
    expect(await plain.text()).toBe('hello')
    const taken = await api('/b/b/o/k?alt=media', { headers: { 'accept-encoding': 'gzip' } })
    expect(taken.headers.get('content-length')).toBe(String(packed.length))
  })
})

describe('listings', () => {
  it('come in pages, in byte order, by raw prefix', async () => {
    const { insert, api } = await open({ pageSize: 2 })
    for (const name of ['s-10/a', 's-1/b', 's-1/a', 's-1/\u{1f600}', 's-1/\uffee']) await insert(name, 'x')
    const names: string[] = []
    let token = ''
    let pages = 0
    do {
      const answer = await api(`/b/b/o?prefix=s-1${token}`)
      const page = (await answer.json()) as { items: { name: string }[]; nextPageToken?: string }
      names.push(...page.items.map(({ name }) => name))
      token = page.nextPageToken === undefined ? '' : `&pageToken=${page.nextPageToken}`
      pages++
    } while (token !== '')
    expect(names).toEqual(['s-1/a', 's-1/b', 's-1/\uffee', 's-1/\u{1f600}', 's-10/a'])
    expect(pages).toBe(3)
    expect(await (await api('/b/b/o?prefix=none')).json()).toEqual({ kind: 'storage#objects' })
  })

  it('lag behind when that is wanted', async () => {
    let nowMs = 0
    const { insert, api } = await open({ now: () => nowMs, listingLagMs: 1000 })
    const names = async (): Promise<string[]> =>
      ((await (await api('/b/b/o')).json()) as { items?: { name: string }[] }).items?.map(({ name }) => name) ?? []
    await insert('k', 'x')
    expect(await names()).toEqual([])
    nowMs = 1000
    expect(await names()).toEqual(['k'])
    await api('/b/b/o/k', { method: 'DELETE' })
    expect(await names()).toEqual(['k'])
    nowMs = 2000
    expect(await names()).toEqual([])
  })
})

describe('limits and callers', () => {
  it('refuse to rewrite one name at once', async () => {
    let nowMs = 0
    const { insert } = await open({ now: () => nowMs, rewriteIntervalMs: 1000 })
    expect((await insert('k', 'one')).status).toBe(200)
    expect((await insert('other', 'one')).status).toBe(200)
    expect(await failure(await insert('k', 'two'))).toMatchObject({ status: 429, reason: 'rateLimitExceeded' })
    nowMs = 1000
    expect((await insert('k', 'two')).status).toBe(200)
  })

  it.each([
    ['no token', undefined, 401, 'required'],
    ['a bad token', 'bad', 401, 'authError'],
    ['a caller without the right', 'poor', 403, 'forbidden'],
  ])('judge %s', async (_what, token, status, reason) => {
    const judge = (given?: string): 'accepted' | 'denied' | 'invalid' =>
      given === 'good' ? 'accepted' : given === 'poor' ? 'denied' : 'invalid'
    const { api } = await open({ judge })
    const answer = await api('/b/b/o', token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } })
    expect(await failure(answer)).toMatchObject({ status, reason })
    expect((await api('/b/b/o', { headers: { authorization: 'Bearer good' } })).status).toBe(200)
  })
})
