import { createHash } from 'node:crypto'
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { objectStoreConfig, ObjectStore, silentLogger } from '@nexus/objectstore'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openS3Backend, type S3Backend } from '../src/driver.ts'
import { describeOnGateway, gateway, type Gateway } from './gateway.ts'
import { keysOf } from './independent-client.ts'

let directory: string
let bucket: string
const opened: S3Backend[] = []

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'nexus-s3-real-'))
  bucket = (await gateway?.newBucket()) ?? ''
})

afterEach(async () => {
  await Promise.all(opened.splice(0).map((backend) => backend.close()))
  rmSync(directory, { recursive: true })
})

function store(): Gateway {
  if (gateway === undefined) throw new Error('no store')
  return gateway
}

async function open(options: Record<string, unknown> = {}): Promise<S3Backend> {
  const { endpoint, credentialsFile } = store()
  const all = { state_directory: join(directory, 'state'), ...options }
  const config = objectStoreConfig({ backend: 's3', bucket, endpoint, credentialsFile, options: all })
  const backend = await openS3Backend(config, { logger: silentLogger })
  opened.push(backend)
  return backend
}

function file(name: string, mib: number): string {
  const path = join(directory, name)
  writeFileSync(path, Buffer.alloc(mib * 1024 * 1024, `content of ${name} `))
  return path
}

async function digest(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

async function openUploads(): Promise<string[]> {
  const keys: string[] = []
  for await (const { key } of store().client.listIncompleteUploads(bucket, '', true) as AsyncIterable<{
    key: string
  }>) {
    keys.push(key)
  }
  return keys
}

describeOnGateway('on a real store', () => {
  it.each(['when_required', 'when_supported'])(
    'files of every kind go up and come down whole, checksums %s',
    async (checksums) => {
      const backend = await open({ checksums })
      for (const [name, mib] of [
        ['buffered', 1],
        ['streamed', 20],
        ['parts', 70],
      ] as const) {
        const path = file(name, mib)
        await backend.put(`s/${name}`, path)
        const copy = join(directory, `${name}.copy`)
        await backend.get(`s/${name}`, copy)
        expect(await digest(copy)).toBe(await digest(path))
      }
      expect(await openUploads()).toEqual([])
    },
  )

  it('an aborted upload in parts leaves nothing', async () => {
    const backend = await open()
    const abort = new AbortController()
    const reason = new Error('enough')
    const call = backend.put('s/large', file('large', 80), {
      signal: abort.signal,
      onProgress: () => abort.abort(reason),
    })
    await expect(call).rejects.toBe(reason)
    expect(await openUploads()).toEqual([])
    expect(await keysOf(store().client, bucket)).toEqual([])
  })

  it('a conditional create of a streamed file has one winner, and the loser hears so', async () => {
    const first = await open()
    const second = await open()
    const path = file('streamed', 12)
    const answers = await Promise.all([first.putIfAbsent('s/a', path), second.putIfAbsent('s/a', path)])
    expect(answers.filter(Boolean)).toHaveLength(1)
    expect(await keysOf(store().client, bucket)).toEqual(['s/a'])
  })

  it('wrong keys are a permission error, a missing bucket is not a missing object', async () => {
    const credentialsFile = join(directory, 'wrong')
    writeFileSync(credentialsFile, '[default]\naws_access_key_id = nobody\naws_secret_access_key = nothing\n')
    const { endpoint } = store()
    const config = objectStoreConfig({ backend: 's3', bucket, endpoint, credentialsFile })
    const stranger = await openS3Backend(config, { logger: silentLogger })
    opened.push(stranger)
    const refused = new ObjectStore(stranger, { name: 's3' }).get('s/a', join(directory, 'x'))
    await expect(refused).rejects.toMatchObject({ code: 'PERMISSION' })
    await store().client.removeBucket(bucket)
    const gone = new ObjectStore(await open(), { name: 's3' }).get('s/a', join(directory, 'x'))
    await expect(gone).rejects.toMatchObject({ code: 'PRECONDITION' })
  })
})
