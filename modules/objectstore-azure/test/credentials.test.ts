import { readFileSync, writeFileSync } from 'node:fs'
import { inspect } from 'node:util'
import {
  AccountSASPermissions,
  ContainerSASPermissions,
  generateAccountSASQueryParameters,
  generateBlobSASQueryParameters,
  StorageSharedKeyCredential,
} from '@azure/storage-blob'
import { ObjectStore, objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { ACCOUNT, ACCOUNT_KEY } from '@nexus/objectstore-emulators/azure'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { openAzureBackend } from '../src/driver.ts'

import { openTestStore, type TestStore } from './test-container.ts'

const WRONG_KEY = Buffer.alloc(64, 1).toString('base64')
const signer = new StorageSharedKeyCredential(ACCOUNT, ACCOUNT_KEY)
const inAnHour = (): Date => new Date(Date.now() + 3_600_000)

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

function accountSas(): string {
  const permissions = AccountSASPermissions.parse('rwdlac')
  const rights = { expiresOn: inAnHour(), permissions, services: 'b', resourceTypes: 'sco' }
  return generateAccountSASQueryParameters(rights, signer).toString()
}

function containerSas(): string {
  const permissions = ContainerSASPermissions.parse('racwdl')
  const rights = { containerName: container, permissions, expiresOn: inAnHour() }
  return generateBlobSASQueryParameters(rights, signer).toString()
}

interface Given {
  endpoint?: string
  credentialsFile?: string
  options?: Record<string, unknown>
}

async function openWith(given: Given): Promise<ObjectStore> {
  const config = objectStoreConfig({ backend: 'azure', bucket: container, ...given })
  return new ObjectStore(await openAzureBackend(config, { logger: silentLogger }), { name: 'azure' })
}

function secretFile(text: string): string {
  const path = store.freshPath()
  writeFileSync(path, text, { mode: 0o600 })
  return path
}

const endpoint = (): string => store.emulator.url

describe('credentials', () => {
  const kinds: [string, () => Given][] = [
    ['a connection string', () => ({ options: { connection_string: store.emulator.connectionString } })],
    [
      'a file with a connection string',
      () => ({ credentialsFile: secretFile(`${store.emulator.connectionString}\n`) }),
    ],
    ['an account key', () => ({ endpoint: endpoint(), options: { account_key: ACCOUNT_KEY } })],
    ['a file with an account key', () => ({ endpoint: endpoint(), credentialsFile: secretFile(`${ACCOUNT_KEY}\n`) })],
    ['a SAS of the account', () => ({ endpoint: endpoint(), options: { sas_token: accountSas() } })],
    ['a SAS of the container alone', () => ({ endpoint: endpoint(), options: { sas_token: `?${containerSas()}` } })],
    ['a file with a SAS', () => ({ endpoint: endpoint(), credentialsFile: secretFile(containerSas()) })],
    [
      'a connection string with a SAS',
      () => ({ options: { connection_string: `BlobEndpoint=${endpoint()};SharedAccessSignature=${accountSas()}` } }),
    ],
  ]

  it.each(kinds)('of %s do for every operation', async (_, given) => {
    const seam = await openWith(given())
    await seam.put('s/k', store.file('content'))
    expect(await seam.putIfAbsent('s/k', store.file('other'))).toBe(false)
    expect((await seam.list('s')).map(({ key }) => key)).toEqual(['s/k'])
    const path = store.freshPath()
    await seam.get('s/k', path)
    expect(readFileSync(path, 'utf8')).toBe('content')
    await seam.delete('s/k')
    expect(await seam.listNames('')).toEqual([])
  })

  it('in a file that was written anew are used after the refusal of the old ones', async () => {
    const path = secretFile(WRONG_KEY)
    const seam = await openWith({ endpoint: endpoint(), credentialsFile: path })
    await expect(seam.put('k', store.file('x'))).rejects.toMatchObject({ code: 'PERMISSION' })
    writeFileSync(path, ACCOUNT_KEY)
    await seam.put('k', store.file('x'))
  })

  it('that were lost are PERMISSION in every call, and never a miss', async () => {
    const seam = await openWith({ endpoint: endpoint(), options: { account_key: WRONG_KEY } })
    const calls = [
      seam.put('k', store.file('x')),
      seam.get('k', store.freshPath()),
      seam.list(''),
      seam.listNames(''),
      seam.delete('k'),
      seam.hydrate('', store.freshPath()),
      seam.putIfAbsent('k', store.file('x')),
    ]
    for (const call of await Promise.allSettled(calls)) {
      expect(call).toMatchObject({ status: 'rejected', reason: { code: 'PERMISSION' } })
    }
  })
})

describe('a secret', () => {
  it('is in no error and no cause, whatever the store answers', async () => {
    const sas = accountSas()
    const signature = new URLSearchParams(sas).get('sig') ?? ''
    store.emulator.faults.add({
      fault: { kind: 'status', status: 403, code: `AuthenticationFailed ${sas} ${ACCOUNT_KEY}` },
    })
    const givens: Given[] = [
      { endpoint: endpoint(), options: { sas_token: sas } },
      { endpoint: endpoint(), options: { account_key: ACCOUNT_KEY } },
      { endpoint: 'http://127.0.0.1:1/account', options: { sas_token: sas, retry_timeout_ms: 0 } },
    ]
    for (const given of givens) {
      const seam = await openWith(given)
      const calls = [seam.put('k', store.file('x')), seam.list(''), seam.get('k', store.freshPath())]
      for (const call of await Promise.allSettled(calls)) {
        const error: unknown = call.status === 'rejected' ? call.reason : undefined
        expect(error).toBeInstanceOf(Error)
        const shown = inspect(error, { depth: 10, showHidden: true })
        for (const secret of [signature, encodeURIComponent(signature), ACCOUNT_KEY]) {
          expect(shown.includes(secret)).toBe(false)
        }
      }
    }
  })
})
