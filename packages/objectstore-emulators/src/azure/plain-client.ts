import { createHmac } from 'node:crypto'

/** The account that every Azurite has. */
export const ACCOUNT = 'devstoreaccount1'
/** Its key, which the vendor has published. */
export const ACCOUNT_KEY = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='

/** A client of the REST API that is neither the SDK nor the backend under test: signed fetches. */
export interface AzureClient {
  createContainer(name: string): Promise<void>
  deleteContainer(name: string): Promise<void>
  keys(container: string): Promise<string[]>
  /** Undefined for a missing blob. */
  get(container: string, name: string): Promise<Buffer | undefined>
  /** Stores bytes under any name at all, with what headers are given. */
  put(container: string, name: string, content: string | Uint8Array, headers?: Record<string, string>): Promise<void>
  /** Stages a block of another writer. Ids must be as long as those of the other writers of the name. */
  stageBlock(container: string, name: string, id: string, content: string): Promise<void>
  commitBlocks(container: string, name: string, ids: readonly string[], headers?: Record<string, string>): Promise<void>
}

/** @param url of the blob service, without the account */
export function plainAzureClient(url: string): AzureClient {
  const send = async (method: string, path: string, query: Query = {}, body?: Body, headers: Query = {}) => {
    const answer = await fetch(`${url}/${ACCOUNT}${path}${queryText(query)}`, {
      method,
      headers: signed(method, path, query, body, headers),
      ...(body === undefined ? {} : { body: body as string }),
    })
    if (answer.ok || answer.status === 404) return answer
    throw new Error(`the emulator answered ${answer.status} to ${method} ${path}: ${await answer.text()}`)
  }
  return {
    createContainer: async (name) => void (await send('PUT', `/${name}`, { restype: 'container' })),
    deleteContainer: async (name) => void (await send('DELETE', `/${name}`, { restype: 'container' })),
    keys: async (container) => {
      const answer = await send('GET', `/${container}`, { comp: 'list', restype: 'container' })
      return [...(await answer.text()).matchAll(/<Name>([^<]*)<\/Name>/g)].map(([, name = '']) => unescapeXml(name))
    },
    get: async (container, name) => {
      const answer = await send('GET', blobPath(container, name))
      return answer.status === 404 ? undefined : Buffer.from(await answer.arrayBuffer())
    },
    put: async (container, name, content, headers = {}) => {
      await send('PUT', blobPath(container, name), {}, content, { 'x-ms-blob-type': 'BlockBlob', ...headers })
    },
    stageBlock: async (container, name, id, content) => {
      await send('PUT', blobPath(container, name), { blockid: id, comp: 'block' }, content)
    },
    commitBlocks: async (container, name, ids, headers = {}) => {
      const list = ids.map((id) => `<Latest>${id}</Latest>`).join('')
      const body = `<?xml version="1.0" encoding="utf-8"?><BlockList>${list}</BlockList>`
      await send('PUT', blobPath(container, name), { comp: 'blocklist' }, body, headers)
    },
  }
}

function blobPath(container: string, name: string): string {
  return `/${container}/${name.split('/').map(encodeURIComponent).join('/')}`
}

type Query = Record<string, string>
type Body = string | Uint8Array

function queryText(query: Query): string {
  const text = Object.entries(query)
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    .join('&')
  return text === '' ? '' : `?${text}`
}

/** @see https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key */
function signed(method: string, path: string, query: Query, body: Body | undefined, given: Query): Query {
  const headers: Query = { 'x-ms-date': new Date().toUTCString(), 'x-ms-version': '2021-12-02', ...given }
  const canonicalHeaders = Object.entries(headers)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}:${value}\n`)
  const resource = `/${ACCOUNT}/${ACCOUNT}${path}`
  const canonicalQuery = Object.entries(query)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `\n${name}:${value}`)
  const length = body === undefined ? 0 : Buffer.byteLength(body)
  const contentType = typeof body === 'string' ? 'text/plain;charset=UTF-8' : ''
  const text = [
    `${method}\n\n\n${length === 0 ? '' : length}\n\n${contentType}\n\n\n\n\n\n\n`,
    ...canonicalHeaders,
    resource,
    ...canonicalQuery,
  ].join('')
  const signature = createHmac('sha256', Buffer.from(ACCOUNT_KEY, 'base64')).update(text).digest('base64')
  return { ...headers, Authorization: `SharedKey ${ACCOUNT}:${signature}` }
}

function unescapeXml(text: string): string {
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
}
