import { readFileSync } from 'node:fs'
import { openLoopbackServer } from '@nexus/objectstore-emulators/http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { GcsBackend } from '../src/driver.ts'
import { freshDirectory, openTestBucket, type TestBucket } from './test-bucket.ts'

let bucket: TestBucket

beforeEach(async () => {
  bucket = await openTestBucket()
})

afterEach(() => bucket.remove())

type Call = (backend: GcsBackend) => Promise<unknown>

const calls: [string, Call][] = [
  ['list', (backend) => backend.list('')],
  ['hydrate', (backend) => backend.hydrate('', freshDirectory(bucket))],
  ['put', (backend) => backend.put('k', bucket.file('x'))],
  ['putIfAbsent', (backend) => backend.putIfAbsent('k', bucket.file('x'))],
]

// A captive portal, or a gateway in the way, answers everything with a page and status 200.
const pages = ['<html>Welcome</html>', '{}', '{"status":"ok"}', '[]', 'null']

describe.each(pages)('a success that the store never gave, %s,', (page) => {
  it.each(calls)('is no success of %s', async (_name, call) => {
    const portal = await openLoopbackServer(async (request, response) => {
      for await (const _ of request);
      response.writeHead(200, { 'content-type': 'application/json', location: '/session' }).end(page)
    })
    try {
      const error: unknown = await call(await bucket.open({ endpoint: portal.url })).catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(Error)
    } finally {
      await portal.close()
    }
  })

  it('is no object, and leaves the local file as it was', async () => {
    const portal = await openLoopbackServer(async (_request, response) => {
      response.writeHead(200).end(page)
    })
    const path = bucket.file('kept')
    try {
      const backend = await bucket.open({ endpoint: portal.url })
      const error: unknown = await backend.get('k', path).catch((thrown: unknown) => thrown)
      expect(backend.classify(error)).toBe('temporary')
      expect(readFileSync(path, 'utf8')).toBe('kept')
    } finally {
      await portal.close()
    }
  })
})

it('a listing that goes round ends', async () => {
  const round = await openLoopbackServer(async (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end('{"kind":"storage#objects","nextPageToken":"again"}')
  })
  try {
    const backend = await bucket.open({ endpoint: round.url })
    await expect(backend.list('')).rejects.toThrow('a page that was there before')
  } finally {
    await round.close()
  }
})
