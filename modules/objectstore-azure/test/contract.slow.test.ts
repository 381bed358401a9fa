import { describeBackendContract } from '@nexus/objectstore-contract'
import { afterAll, beforeAll, describe, it } from 'vitest'
import type { AzureBackend } from '../src/driver.ts'
import { openTestStore, type TestStore } from './test-container.ts'

let store: TestStore
let container = ''

beforeAll(async () => {
  store = await openTestStore()
})

afterAll(() => store.remove())

/** What the store can't hold is answered with false. */
function planting(prefix: string) {
  return async (_backend: object, key: string, content: string | Uint8Array): Promise<boolean> => {
    // The service makes a slash of it, and drops what URLs drop.
    if (/\\|(?:^|\/)\.{1,2}(?:\/|$)/.test(key)) return false
    await store.emulator.client.put(container, `${prefix}${key}`, content)
    return true
  }
}

async function open(prefix: string, options: Record<string, unknown> = {}): Promise<AzureBackend> {
  container = await store.newContainer()
  return store.open(container, { prefix, options })
}

async function destroy(): Promise<void> {
  store.emulator.faults.clear()
  await store.emulator.client.deleteContainer(container)
}

const onCreate = ({ operation, key }: { operation: string; key: string }): boolean =>
  operation === 'Put Blob' && !key.endsWith('/')

describeBackendContract(() => open('', { page_size: 25 }), {
  describe,
  it,
  title: 'azure backend in small pages',
  listProbeCount: 60,
  destroy,
  plant: planting(''),
  configured: (() => {
    const containers = new Map<string, Promise<string>>()
    return async ({ prefix, options }, caseId) => {
      const made = containers.get(caseId) ?? store.newContainer()
      containers.set(caseId, made)
      return store.open(await made, {
        ...(prefix === undefined ? {} : { prefix }),
        ...(options === undefined ? {} : { options }),
      })
    }
  })(),
  missingBucket: () => store.open('never-made'),
  refused: () => store.open(container, { options: { account_key: Buffer.alloc(64, 1).toString('base64') } }),
  removeBucket: () => store.emulator.client.deleteContainer(container),
  lostAnswer: async () => {
    const backend = await store.open(container)
    store.emulator.faults.add({ fault: { kind: 'lost-answer' }, times: 1, on: onCreate })
    return backend
  },
  cutDownloads: () => {
    store.emulator.faults.add({
      fault: { kind: 'download-reset', afterBytes: 0 },
      on: ({ operation }) => operation === 'Get Blob',
    })
    return store.open(container, { options: { retry_timeout_ms: 200 } })
  },
})

describeBackendContract(
  async () => {
    const backend = await open('deploy+1/caf\u00e9', { block_threshold: 1, block_size: 1024 * 1024, page_size: 7 })
    // Neighbours of the prefix that must never show.
    await store.emulator.client.put(container, 'deploy+1/caf\u00e9-x/a', 'not ours')
    await store.emulator.client.put(container, 'deploy+1/b', 'not ours')
    return backend
  },
  {
    describe,
    it,
    title: 'azure backend below a prefix, in small blocks',
    listProbeCount: 50,
    destroy,
    plant: planting('deploy+1/caf\u00e9/'),
  },
)
