// A store to try the HTTP driver on: one bucket "b" in memory, pages of 100, and a token.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export const TOKEN = 'tiny-store-token'
const PAGE = 100

export interface TinyStore {
  endpoint: string
  objects: Map<string, Buffer>
  /** Close the connection instead of answering the next conditional PUT. */
  loseNextAnswer(): void
  /** Send only half of every body from now on. */
  cutDownloads(): void
  close(): void
}

export async function startTinyStore(): Promise<TinyStore> {
  const objects = new Map<string, Buffer>()
  const faults = { loseAnswer: false, cut: false }
  const server: Server = createServer((request, response) => {
    answer(request, response, objects, faults).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  server.unref()
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    objects,
    loseNextAnswer: () => void (faults.loseAnswer = true),
    cutDownloads: () => void (faults.cut = true),
    close: () => server.close(),
  }
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  objects: Map<string, Buffer>,
  faults: { loseAnswer: boolean; cut: boolean },
): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  const refuse = (status: number, code: string): void => void response.writeHead(status).end(code)
  const url = new URL(request.url ?? '/', 'http://tiny')
  const [bucket, ...rest] = url.pathname.slice(1).split('/').map(decodeURIComponent)
  const key = rest.join('/')
  if (request.headers.authorization !== `Bearer ${TOKEN}`) return refuse(403, 'Forbidden')
  if (bucket !== 'b') return refuse(404, 'NoSuchBucket')
  if (key === '') return void response.end(JSON.stringify(page(objects, url.searchParams)))
  if (request.method === 'DELETE') objects.delete(key)
  if (request.method === 'PUT') {
    if (request.headers['if-none-match'] === '*' && objects.has(key)) return refuse(412, 'Exists')
    objects.set(key, Buffer.concat(chunks))
    if (request.headers['if-none-match'] === '*' && faults.loseAnswer) return void response.destroy()
  }
  if (request.method !== 'GET') return void response.end()
  const bytes = objects.get(key)
  if (bytes === undefined) return refuse(404, 'NoSuchObject')
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? []
  if (first !== undefined && Number(first) >= bytes.length) return refuse(416, 'InvalidRange')
  const body = first === undefined ? bytes : bytes.subarray(Number(first), last === '' ? undefined : Number(last) + 1)
  response.writeHead(200, { 'content-length': body.length })
  if (!faults.cut) return void response.end(body)
  response.write(body.subarray(0, body.length / 2), () => response.destroy())
}

function page(objects: Map<string, Buffer>, query: URLSearchParams): object {
  const prefix = query.get('prefix') ?? ''
  const below = [...objects.keys()].filter((key) => key.startsWith(prefix))
  const names =
    query.get('delimiter') === null
      ? below
      : [...new Set(below.map((key) => key.slice(prefix.length).split('/')[0] ?? ''))]
  const rest = names.toSorted().filter((name) => name > (query.get('after') ?? ''))
  const next = rest.length > PAGE ? { next: rest[PAGE - 1] } : {}
  const shown = rest.slice(0, PAGE)
  if (query.get('delimiter') !== null) return { names: shown, ...next }
  return { objects: shown.map((key) => ({ key, size: objects.get(key)?.length ?? 0 })), ...next }
}
