import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { objectStoreConfig, ObjectStore, silentLogger } from '@nexus/objectstore'
import { EMULATOR_CREDENTIALS, openS3Emulator, type S3Emulator } from '@nexus/objectstore-emulators/s3'
import { afterEach, describe, expect, it } from 'vitest'
import { openS3Backend, type S3Backend } from '../src/driver.ts'
import { writeCredentials } from './gateway.ts'

const CA_FILE = new URL('fixtures/tls-cert.pem', import.meta.url).pathname
const tls = {
  cert: readFileSync(CA_FILE, 'utf8'),
  key: readFileSync(new URL('fixtures/tls-key.pem', import.meta.url), 'utf8'),
}

const closers: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

async function emulate(options: Parameters<typeof openS3Emulator>[0] = {}): Promise<S3Emulator> {
  const emulator = await openS3Emulator(options)
  closers.push(() => emulator.close())
  return emulator
}

async function open(parts: Partial<Parameters<typeof objectStoreConfig>[0]>): Promise<S3Backend> {
  const credentialsFile = writeCredentials(EMULATOR_CREDENTIALS.accessKeyId, EMULATOR_CREDENTIALS.secretAccessKey)
  const config = objectStoreConfig({ backend: 's3', bucket: 'bucket', credentialsFile, ...parts })
  const backend = await openS3Backend(config, { logger: silentLogger })
  closers.push(() => backend.close())
  return backend
}

interface Proxy {
  url: string
  /** What was asked for: hosts of tunnels, and absolute URLs. */
  asked: string[]
}

/** A proxy that sends everything to one port of loopback, wherever it was meant for. */
async function openProxy(targetPort: number): Promise<Proxy> {
  const asked: string[] = []
  const sockets = new Set<Socket>()
  const server: Server = createServer((request, response) => {
    asked.push(request.url ?? '')
    response.writeHead(502).end()
  })
  server.on('connect', (request, socket: Socket) => {
    asked.push(request.url ?? '')
    const upstream = connect(targetPort, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
      socket.pipe(upstream).pipe(socket)
    })
    socket.on('close', () => upstream.destroy()).on('error', () => upstream.destroy())
    upstream.on('close', () => socket.destroy()).on('error', () => socket.destroy())
  })
  server.on('connection', (socket) => sockets.add(socket))
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  closers.push(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => void server.close(resolve))
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

const thisFile = import.meta.filename

describe("Amazon's own addresses", () => {
  it('have the bucket in the host name, over TLS, through the configured proxy', async () => {
    const region = 'eu-central-1'
    const emulator = await emulate({ region, tls })
    emulator.createBucket('bucket')
    const proxy = await openProxy(Number(new URL(emulator.url).port))
    const backend = await open({ region, prefix: 'prod', options: { proxy: proxy.url, ca_file: CA_FILE } })
    await backend.put('s/a+b c', thisFile)
    expect(await backend.putIfAbsent('s/new', thisFile)).toBe(true)
    expect((await backend.list('s')).map(({ key }) => key)).toEqual(['s/a+b c', 's/new'])
    expect(emulator.keys('bucket')).toEqual(['prod/s/a+b c', 'prod/s/new'])
    expect(new Set(proxy.asked)).toEqual(new Set(['bucket.s3.eu-central-1.amazonaws.com:443']))
    expect(emulator.requests[0]?.headers['x-amz-checksum-crc32']).toBeDefined()
  })

  it('with a dot in the bucket name are paths, where a wildcard certificate would not do', async () => {
    const region = 'eu-central-1'
    const emulator = await emulate({ region, tls })
    emulator.createBucket('bucket.example.org')
    const proxy = await openProxy(Number(new URL(emulator.url).port))
    const options = { proxy: proxy.url, ca_file: CA_FILE }
    const backend = await open({ region, bucket: 'bucket.example.org', options })
    await backend.put('a', thisFile)
    expect(emulator.keys('bucket.example.org')).toEqual(['a'])
  })
})

describe('TLS', () => {
  it('is trusted with ca_file', async () => {
    const emulator = await emulate({ tls })
    emulator.createBucket('bucket')
    const backend = await open({ endpoint: emulator.url, options: { ca_file: CA_FILE } })
    await backend.put('a', thisFile)
    expect(emulator.keys('bucket')).toEqual(['a'])
  })

  it('is not trusted without, and a conditional create is then an outage, not unknown', async () => {
    const emulator = await emulate({ tls })
    emulator.createBucket('bucket')
    const backend = await open({ endpoint: emulator.url, options: { max_attempts: 1 } })
    const store = new ObjectStore(backend, { name: 's3' })
    await expect(store.put('a', thisFile)).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringContaining('SIGNED'),
    })
    await expect(store.putIfAbsent('a', thisFile)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })

  it.each(['/nonexistent/ca.pem', thisFile])(
    'with a ca_file that holds no certificate fails the open: %s',
    async (path) => {
      await expect(open({ endpoint: 'https://127.0.0.1:1', options: { ca_file: path } })).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        key: 'core.object_store.options.ca_file',
      })
    },
  )
})

describe('a bucket in another region', () => {
  it('is refused for good, and the message says where it is', async () => {
    const emulator = await emulate()
    emulator.createBucket('bucket', 'eu-north-1')
    const store = new ObjectStore(await open({ endpoint: emulator.url }), { name: 's3' })
    const expected = {
      code: 'PRECONDITION',
      retryable: false,
      message: expect.stringContaining('the bucket is in eu-north-1: set core.object_store.region'),
    }
    await expect(store.put('a', thisFile)).rejects.toMatchObject(expected)
    await expect(store.get('a', join(tmpdir(), 'never'))).rejects.toMatchObject(expected)
    const right = await open({ endpoint: emulator.url, region: 'eu-north-1' })
    await right.put('a', thisFile)
    expect(emulator.keys('bucket')).toEqual(['a'])
  })
})

describe('a proxy', () => {
  it('that is down is an outage, and its password is in no message', async () => {
    const options = { proxy: 'http://user:proxypassword@127.0.0.1:1', max_attempts: 1 }
    const store = new ObjectStore(await open({ region: 'eu-central-1', options }), { name: 's3' })
    const error: unknown = await store.put('a', thisFile).catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: 'UNAVAILABLE' })
    expect(String(error)).not.toContain('proxypassword')
  })

  it('carries plain http, too', async () => {
    const proxy = await openProxy(1)
    const options = { proxy: proxy.url, max_attempts: 1 }
    const store = new ObjectStore(await open({ endpoint: 'http://store.test:9000', options }), { name: 's3' })
    await expect(store.delete('a')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(proxy.asked[0]).toMatch(/^http:\/\/store\.test:9000\/bucket\/a/)
  })
})

describe('a portal that says yes to everything', () => {
  it.each([
    [200, 'UNAVAILABLE'],
    [503, 'UNAVAILABLE'],
    [404, 'PRECONDITION'],
  ])('with a page of HTML and status %d is never a store', async (status, code) => {
    const server = createServer((request, response) => {
      request.resume()
      response.writeHead(status, { 'content-type': 'text/html' }).end('<html><body>Please log in</body></html>')
    })
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
    closers.push(() => {
      server.closeAllConnections()
      return new Promise((resolve) => void server.close(() => resolve()))
    })
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const store = new ObjectStore(await open({ endpoint, options: { max_attempts: 1 } }), { name: 's3' })
    await expect(store.list('s')).rejects.toMatchObject({ code })
    await expect(store.put('s/a', thisFile)).rejects.toMatchObject({ code })
    await expect(store.putIfAbsent('s/a', thisFile)).rejects.toMatchObject({
      code,
    })
    const got = store.get('s/a', join(tmpdir(), 'never'))
    await expect(got).rejects.toMatchObject({ code })
    const large = join(mkdtempSync(join(tmpdir(), 'nexus-s3-wire-')), 'large')
    writeFileSync(large, '')
    truncateSync(large, 70 * 1024 * 1024)
    await expect(store.put('s/a', large)).rejects.toMatchObject({ code })
    rmSync(dirname(large), { recursive: true })
  })
})
