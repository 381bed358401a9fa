import { createHash } from 'node:crypto'
import type { SignedClient } from './signed-client.ts'

/** One step's outcome, in the terms that every S3 store shares. */
export interface StepOutcome {
  step: string
  status: number
  /** Of an error document. */
  code?: string
  /** What else the step looks at. */
  seen?: unknown
}

const KEYS = [
  's/a',
  's/a b',
  's/a+b',
  's/a%2Bb',
  's/caf\u00e9',
  's/line\nbreak',
  's/\u0004',
  's/zero',
  't/other',
  's-x/a',
]
const PART = Buffer.alloc(5 * 1024 * 1024, 'part')

/**
 * The calls that the backend makes, and what goes wrong with them, one after the other. Run against two stores, the outcomes
 * must be equal: that is what the emulator is trusted for.
 */
export async function runS3Scenario(client: SignedClient, bucket: string): Promise<StepOutcome[]> {
  const outcomes: StepOutcome[] = []
  const step = async (
    name: string,
    [method, path, options]: Parameters<SignedClient>,
    look?: (answer: Awaited<ReturnType<SignedClient>>) => unknown,
  ): Promise<string> => {
    const answer = await client(method, path, options)
    const code = answer.status < 300 ? undefined : /<Code>(\w+)<\/Code>/.exec(answer.text)?.[1]
    const seen = look?.(answer)
    outcomes.push({
      step: name,
      status: answer.status,
      ...(code === undefined ? {} : { code }),
      ...(seen === undefined ? {} : { seen }),
    })
    return answer.text
  }
  const object = (key: string): string => `/${bucket}/${encodePath(key)}`
  const list = (query: Record<string, string>): Parameters<SignedClient> => [
    'GET',
    `/${bucket}`,
    { query: { 'list-type': '2', 'encoding-type': 'url', ...query } },
  ]

  await step('create the bucket', ['PUT', `/${bucket}`])
  for (const key of KEYS) {
    const body = key === 's/zero' ? '' : `content of ${key}`
    await step(`put ${JSON.stringify(key)}`, ['PUT', object(key), { body }], ({ headers }) => headers.etag)
  }
  await step('get', ['GET', object('s/a b')], ({ text, headers }) => [text, headers.etag, headers['content-length']])
  await step('head', ['HEAD', object('s/a')], ({ headers }) => [headers['content-length'], headers.etag])
  await step('get a range', ['GET', object('s/a'), { headers: { range: 'bytes=3-5' } }], ({ text, headers }) => [
    text,
    headers['content-range'],
  ])
  await step('get to the end', ['GET', object('s/a'), { headers: { range: 'bytes=8-' } }], ({ text }) => text)
  await step(
    'get more than there is',
    ['GET', object('s/a'), { headers: { range: 'bytes=8-1000' } }],
    ({ text }) => text,
  )
  await step('get beyond the end', ['GET', object('s/a'), { headers: { range: 'bytes=1000-' } }])
  await step('get a range of an empty object', ['GET', object('s/zero'), { headers: { range: 'bytes=0-4' } }])
  await step('get a missing key', ['GET', object('s/missing')])
  await step('head a missing key', ['HEAD', object('s/missing')])
  await step('get from a missing bucket', ['GET', `/${bucket}-missing/a`])
  await step('list a missing bucket', ['GET', `/${bucket}-missing`, { query: { 'list-type': '2' } }])
  await step('put into a missing bucket', ['PUT', `/${bucket}-missing/a`, { body: 'x' }])
  await step('delete a missing key', ['DELETE', object('s/missing')])

  const ifFree = { 'if-none-match': '*' }
  await step('create a free key', ['PUT', object('c/new'), { body: 'first', headers: ifFree }])
  await step('create a taken key', ['PUT', object('c/new'), { body: 'second', headers: ifFree }])
  await step('see who won', ['GET', object('c/new')], ({ text }) => text)
  await step('delete it', ['DELETE', object('c/new')])
  await step('create it again', ['PUT', object('c/new'), { body: 'third', headers: ifFree }])

  await step('list all of a prefix', list({ prefix: 's/' }), ({ text }) => listed(text))
  await step('list nothing', list({ prefix: 'nothing/' }), ({ text }) => listed(text))
  await step('list with a delimiter', list({ delimiter: '/' }), ({ text }) => listed(text))
  await step('list version 1', ['GET', `/${bucket}`, { query: { prefix: 't/' } }], ({ text }) => listed(text))
  let token: string | undefined
  let pages = 0
  do {
    const query = { prefix: 's/', 'max-keys': '3', ...(token === undefined ? {} : { 'continuation-token': token }) }
    const text = await step(`list page ${++pages}`, list(query), (answer) => listed(answer.text))
    token = /<NextContinuationToken>([^<]+)<\/NextContinuationToken>/.exec(text)?.[1]
  } while (token !== undefined && pages < 10)

  const wrongSum = { 'content-md5': createHash('md5').update('other').digest('base64') }
  await step('put with a wrong digest', ['PUT', object('w/a'), { body: 'x', headers: wrongSum }])
  await step('put with a wrong payload hash', ['PUT', object('w/a'), { body: 'x', payloadHash: '0'.repeat(64) }])
  await step('sign with a wrong secret', ['GET', object('s/a'), { secretAccessKey: 'wrong' }])
  await step('sign with an unknown key', ['GET', object('s/a'), { accessKeyId: 'unknown' }])
  await step('do not sign', ['GET', object('s/a'), { unsigned: true }])

  const begun = await step('begin an upload', ['POST', object('m/large'), { query: { uploads: '' } }])
  const uploadId = /<UploadId>([^<]+)<\/UploadId>/.exec(begun)?.[1] ?? ''
  const part = (number: number): Record<string, string> => ({ partNumber: String(number), uploadId })
  await step('upload part 1', ['PUT', object('m/large'), { query: part(1), body: PART }], ({ headers }) => headers.etag)
  await step(
    'upload part 2',
    ['PUT', object('m/large'), { query: part(2), body: 'end' }],
    ({ headers }) => headers.etag,
  )
  await step('list the parts', ['GET', object('m/large'), { query: { uploadId } }], ({ text }) =>
    [...text.matchAll(/<Size>(\d+)<\/Size>/g)].map(([, size]) => size),
  )
  await step('it is not there yet', ['GET', object('m/large')])
  const parts = [PART, Buffer.from('end')].map((bytes) => `"${createHash('md5').update(bytes).digest('hex')}"`)
  const body = `<CompleteMultipartUpload>${parts
    .map((etag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${etag}</ETag></Part>`)
    .join('')}</CompleteMultipartUpload>`
  await step('complete it with a wrong part', [
    'POST',
    object('m/large'),
    { query: { uploadId }, body: body.replace(parts[0] ?? '', `"${'0'.repeat(32)}"`) },
  ])
  await step('complete it', ['POST', object('m/large'), { query: { uploadId }, body }])
  await step('it is there', ['HEAD', object('m/large')], ({ headers }) => [headers['content-length'], headers.etag])
  await step('use an upload that is not there', [
    'PUT',
    object('m/x'),
    { query: { partNumber: '1', uploadId: 'none' }, body: 'x' },
  ])
  const other = await step('begin another', ['POST', object('m/other'), { query: { uploads: '' } }])
  const otherId = /<UploadId>([^<]+)<\/UploadId>/.exec(other)?.[1] ?? ''
  await step('list the uploads', ['GET', `/${bucket}`, { query: { uploads: '' } }], ({ text }) =>
    [...text.matchAll(/<Upload>.*?<Key>([^<]+)<\/Key>/gs)].map(([, key]) => key),
  )
  await step('abort it', ['DELETE', object('m/other'), { query: { uploadId: otherId } }])
  await step('abort it again', ['DELETE', object('m/other'), { query: { uploadId: otherId } }])
  return outcomes
}

function encodePath(key: string): string {
  return key.split('/').map(encodeURIComponent).join('/')
}

/** What a listing says, whatever its spelling: keys and prefixes decoded, sizes, whether it was cut. */
function listed(xml: string): unknown {
  const url = xml.includes('<EncodingType>url</EncodingType>')
  const decode = (text = ''): string => (url ? decodeURIComponent(text.replaceAll('+', ' ')) : text)
  const objects = [...xml.matchAll(/<Contents>(.*?)<\/Contents>/gs)].map(([, inner = '']) => [
    decode(/<Key>([^<]*)<\/Key>/.exec(inner)?.[1]),
    /<Size>(\d+)<\/Size>/.exec(inner)?.[1],
    /<ETag>(?:&quot;|&#x22;|&#34;|")?([0-9a-f-]+)/.exec(inner)?.[1],
  ])
  const prefixes = [...xml.matchAll(/<CommonPrefixes><Prefix>([^<]*)<\/Prefix><\/CommonPrefixes>/g)].map(([, prefix]) =>
    decode(prefix),
  )
  return { objects, prefixes, cut: xml.includes('<IsTruncated>true</IsTruncated>') }
}
