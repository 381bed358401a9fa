import { existsSync, mkdirSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { ObjectStore } from '@nexus/objectstore'
import { openCompressingProxy, openLoopbackServer } from '@nexus/objectstore-emulators/http'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { AzureBackend } from '../src/driver.ts'
import { openTestStore, type TestStore } from './test-container.ts'

const KIB = 1024
const BLOCK = 64 * KIB
const IN_BLOCKS = { options: { block_threshold: 1, block_size: BLOCK } }

let store: TestStore
let container: string

beforeAll(async () => {
  store = await openTestStore()
})

afterAll(() => store.remove())

beforeEach(async () => {
  store.emulator.faults.clear()
  container = await store.newContainer()
})

const onOperation =
  (operation: string) =>
  (request: { operation: string }): boolean =>
    request.operation === operation

function pattern(bytes: number): Buffer {
  return Buffer.from(Uint8Array.from({ length: bytes }, (_, i) => (i * 31 + (i >> 8)) & 0xff))
}

/** Runs some work and gives the requests it made. */
async function requestsOf(work: () => Promise<unknown>): Promise<string[]> {
  const before = store.emulator.log.length
  await work()
  return store.emulator.log.slice(before)
}

const stored = async (name = 'k'): Promise<Buffer | undefined> => store.emulator.client.get(container, name)

/** Opens the container, the store already found to decide conditional creates. */
async function openProbed(): Promise<{ backend: AzureBackend; seam: ObjectStore }> {
  const backend = await store.open(container)
  await backend.putIfAbsent('first', store.file('x'))
  return { backend, seam: new ObjectStore(backend, { name: 'azure' }) }
}

describe('an upload in blocks', () => {
  it('goes on at the block that broke, and its progress only grows', async () => {
    const backend = await store.open(container, IN_BLOCKS)
    const content = pattern(5 * BLOCK + 7)
    const onBlock = onOperation('Put Block')
    store.emulator.faults.add({
      fault: { kind: 'upload-reset', afterBytes: BLOCK / 2 },
      times: 1,
      after: 3,
      on: onBlock,
    })
    const seen: number[] = []
    const path = store.file(content)
    const requests = await requestsOf(() =>
      backend.put('k', path, { onProgress: ({ bytes }) => void seen.push(bytes) }),
    )
    expect(requests).toEqual([...Array.from({ length: 7 }, () => 'Put Block k'), 'Put Block List k'])
    expect(seen).toEqual(seen.toSorted((a, b) => a - b))
    expect((await stored())?.equals(content)).toBe(true)
  })

  it('whose commit was answered to nobody is committed again, with the same blocks', async () => {
    const backend = await store.open(container, IN_BLOCKS)
    store.emulator.faults.add({ fault: { kind: 'lost-answer' }, times: 1, on: onOperation('Put Block List') })
    const requests = await requestsOf(() => backend.put('k', store.file(pattern(BLOCK + 1))))
    expect(requests).toEqual(['Put Block k', 'Put Block k', 'Put Block List k', 'Put Block List k'])
    expect((await stored())?.equals(pattern(BLOCK + 1))).toBe(true)
  })

  it('stages its blocks again when the commit of another writer dropped them', async () => {
    const backend = await store.open(container, IN_BLOCKS)
    const mine = pattern(3 * BLOCK)
    const overtake = async (): Promise<void> => {
      const id = Buffer.from('another writer'.padEnd(48, '.')).toString('base64')
      await store.emulator.client.stageBlock(container, 'k', id, 'theirs')
      await store.emulator.client.commitBlocks(container, 'k', [id])
    }
    // Ours has staged everything, and can't commit before the other has.
    let overtaken: Promise<void> | undefined
    let isOvertaken = false
    store.emulator.faults.add({
      fault: { kind: 'status', status: 500, code: 'OperationTimedOut' },
      on: ({ operation }) => {
        if (operation !== 'Put Block List') return false
        overtaken ??= overtake().then(() => void (isOvertaken = true))
        return !isOvertaken
      },
    })
    const requests = await requestsOf(() => backend.put('k', store.file(mine)))
    await overtaken
    expect(requests.filter((line) => line === 'Put Block k')).toHaveLength(6)
    expect((await stored())?.equals(mine)).toBe(true)
  })

  it.each(['fails', 'is aborted'])('that %s leaves the staged blocks of other writers of the name', async (how) => {
    const backend = await store.open(container, { options: { ...IN_BLOCKS.options, retry_timeout_ms: 0 } })
    const id = Buffer.from('another writer'.padEnd(48, '.')).toString('base64')
    await store.emulator.client.stageBlock(container, 'k', id, 'of another writer')
    const abort = new AbortController()
    const fault = { kind: 'status', status: 500, code: 'InternalError' } as const
    store.emulator.faults.add({
      fault,
      after: 1,
      on: (request) => {
        if (how === 'is aborted' && request.operation === 'Put Block') abort.abort(new Error('enough'))
        return request.operation === 'Put Block'
      },
    })
    await expect(backend.put('k', store.file(pattern(3 * BLOCK)), { signal: abort.signal })).rejects.toThrow(
      how === 'fails' ? /InternalError/ : /enough/,
    )
    expect(await stored()).toBeUndefined()
    await store.emulator.client.commitBlocks(container, 'k', [id])
    expect((await stored())?.toString()).toBe('of another writer')
  })

  it('is given up without an object when blocks are refused', async () => {
    const backend = await store.open(container, { options: { ...IN_BLOCKS.options, retry_timeout_ms: 0 } })
    store.emulator.faults.add({ fault: { kind: 'status', status: 400, code: 'Md5Mismatch' } })
    await expect(backend.put('k', store.file(pattern(2 * BLOCK)))).rejects.toMatchObject({ code: 'Md5Mismatch' })
    expect(await stored()).toBeUndefined()
  })
})

describe('a conditional create', () => {
  it('is one request, and a taken name is told by the code of the refusal', async () => {
    const { backend } = await openProbed()
    const requests = await requestsOf(async () => {
      expect(await backend.putIfAbsent('k', store.file('mine'))).toBe(true)
      expect(await backend.putIfAbsent('k', store.file('other'))).toBe(false)
    })
    expect(requests).toEqual(['Put Blob k', 'Put Blob k'])
    expect((await stored())?.toString()).toBe('mine')
  })

  it.each([
    [409, 'BlobAlreadyExists'],
    [412, 'ConditionNotMet'],
  ])('that is refused with %i %s found the name taken', async (status, code) => {
    const { seam } = await openProbed()
    store.emulator.faults.add({ fault: { kind: 'status', status, code } })
    expect(await seam.putIfAbsent('k', store.file('x'))).toBe(false)
  })

  it.each([
    [409, 'BlobBeingRehydrated', 'UNAVAILABLE'],
    [409, 'ContainerBeingDeleted', 'PRECONDITION'],
    [412, 'LeaseIdMissing', 'PRECONDITION'],
    [503, 'ServerBusy', 'THROTTLED'],
    [403, 'AuthorizationPermissionMismatch', 'PERMISSION'],
    [404, 'ContainerNotFound', 'PRECONDITION'],
    [500, 'OperationTimedOut', 'OUTCOME_UNKNOWN'],
    [502, '', 'OUTCOME_UNKNOWN'],
  ])('that is answered %i %s is no "taken", but %s', async (status, code, expected) => {
    const { seam } = await openProbed()
    store.emulator.faults.add({ fault: { kind: 'status', status, code } })
    const requests = await requestsOf(() =>
      expect(seam.putIfAbsent('k', store.file('x'))).rejects.toMatchObject({ code: expected }),
    )
    expect(requests).toEqual(['Put Blob k'])
  })

  it('whose answer was lost is not known to have happened', async () => {
    const { seam } = await openProbed()
    store.emulator.faults.add({ fault: { kind: 'lost-answer' }, times: 1 })
    await expect(seam.putIfAbsent('k', store.file('mine'))).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN', key: 'k' })
    expect((await stored())?.toString()).toBe('mine')
  })

  it('is refused on a store that was seen to ignore the condition', async () => {
    const lax = await openLoopbackServer(async (request, response) => {
      request.resume()
      response.writeHead(request.method === 'PUT' ? 201 : 202, { etag: '"1"', 'x-ms-request-id': '1' }).end()
    })
    try {
      const seam = new ObjectStore(await store.open(container, { endpoint: `${lax.url}/account` }), { name: 'azure' })
      await expect(seam.putIfAbsent('k', store.file('x'))).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    } finally {
      await lax.close()
    }
  })
})

describe('a download', () => {
  const CONTENT = pattern(300 * KIB)

  it('goes on where it broke', async () => {
    const backend = await store.open(container)
    await store.emulator.client.put(container, 'k', CONTENT)
    const onGet = onOperation('Get Blob')
    store.emulator.faults.add({ fault: { kind: 'download-reset', afterBytes: 100 * KIB }, times: 2, on: onGet })
    const path = store.freshPath()
    const requests = await requestsOf(() => backend.get('k', path))
    expect(requests).toEqual(['Get Blob k', 'Get Blob k', 'Get Blob k'])
    expect(readFileSync(path).equals(CONTENT)).toBe(true)
  })

  it('begins anew when the object was replaced meanwhile, and mixes nothing', async () => {
    const backend = await store.open(container)
    await store.emulator.client.put(container, 'k', CONTENT)
    // In blocks and without a digest, so that only the version tells.
    const newer = 'n'.repeat(300 * KIB)
    const replace = async (): Promise<void> => {
      const id = Buffer.from('newer').toString('base64')
      await store.emulator.client.stageBlock(container, 'k', id, newer)
      await store.emulator.client.commitBlocks(container, 'k', [id])
    }
    store.emulator.faults.add({ fault: { kind: 'download-reset', afterBytes: 100 * KIB }, times: 1 })
    let downloads = 0
    let replaced: Promise<void> | undefined
    let isReplaced = false
    store.emulator.faults.add({
      fault: { kind: 'status', status: 500, code: 'OperationTimedOut' },
      on: () => {
        if (downloads++ === 0) return false
        replaced ??= replace().then(() => void (isReplaced = true))
        return !isReplaced
      },
    })
    const path = store.freshPath()
    await backend.get('k', path)
    await replaced
    expect(readFileSync(path, 'utf8') === newer).toBe(true)
  })

  it('whose content is not that of its digest is CORRUPT, and no file', async () => {
    const seam = new ObjectStore(await store.open(container), { name: 'azure' })
    const digest = Buffer.alloc(16, 7).toString('base64')
    const id = Buffer.from('1').toString('base64')
    await store.emulator.client.stageBlock(container, 'k', id, 'content')
    await store.emulator.client.commitBlocks(container, 'k', [id], { 'x-ms-blob-content-md5': digest })
    const path = store.freshPath()
    await expect(seam.get('k', path)).rejects.toMatchObject({ code: 'CORRUPT' })
    expect(existsSync(path)).toBe(false)
  })

  it('that a proxy compressed comes out as it was stored; an object that was stored compressed stays so', async () => {
    const proxy = await openCompressingProxy(new URL(store.emulator.url).origin, 'declared')
    try {
      const endpoint = `${proxy.url}${new URL(store.emulator.url).pathname}`
      const backend = await store.open(container, { endpoint })
      await store.emulator.client.put(container, 'plain', CONTENT)
      await store.emulator.client.put(container, 'gz', CONTENT, { 'x-ms-blob-content-encoding': 'gzip' })
      for (const key of ['plain', 'gz']) {
        const path = store.freshPath()
        await backend.get(key, path)
        expect(readFileSync(path).equals(CONTENT)).toBe(true)
      }
    } finally {
      await proxy.close()
    }
  })
})

describe('a listing', () => {
  it('leaves out the directories of accounts with a hierarchical namespace', async () => {
    const backend = await store.open(container)
    await store.emulator.client.put(container, 's/dir', '', { 'x-ms-meta-hdi_isfolder': 'true' })
    await store.emulator.client.put(container, 's/dir/file', 'x')
    await store.emulator.client.put(container, 's/empty', '', { 'x-ms-meta-hdi_isfolder': 'true' })
    expect((await backend.list('')).map(({ key }) => key)).toEqual(['s/dir/file'])
    expect(await backend.listNames('s')).toEqual(['dir'])
    const directory = store.freshPath()
    mkdirSync(directory)
    await backend.hydrate('s', directory)
    expect(readdirSync(join(directory, 'dir'))).toEqual(['file'])
  })

  it('asks for pages of the configured size', async () => {
    const backend = await store.open(container, { options: { page_size: 2 } })
    for (const key of ['a', 'b', 'c', 'd', 'e']) await store.emulator.client.put(container, key, 'x')
    const requests = await requestsOf(async () => expect(await backend.list('')).toHaveLength(5))
    expect(requests).toHaveLength(3)
  })

  it.each([
    '<html>Welcome</html>',
    '<?xml version="1.0"?><EnumerationResults ContainerName="c"></EnumerationResults>',
    '',
  ])('is never read from a page of a portal: %j', async (page) => {
    const portal = await openLoopbackServer(async (request, response) => {
      request.resume()
      response.writeHead(200, { 'content-type': 'application/xml' }).end(page)
    })
    try {
      const options = { retry_timeout_ms: 0 }
      const backend = await store.open(container, { endpoint: `${portal.url}/account`, options })
      const seam = new ObjectStore(backend, { name: 'azure' })
      await expect(seam.list('')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
      await expect(seam.delete('k')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
      await expect(seam.put('k', store.file('x'))).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    } finally {
      await portal.close()
    }
  })
})

describe('silence of the store', () => {
  it('ends a request after its limit, and the next attempt succeeds', async () => {
    const backend = await store.open(container, { options: { idle_timeout_ms: 200 } })
    store.emulator.faults.add({ fault: { kind: 'silence' }, times: 1 })
    const requests = await requestsOf(() => backend.put('k', store.file('x')))
    expect(requests).toEqual(['Put Blob k', 'Put Blob k'])
  })
})
