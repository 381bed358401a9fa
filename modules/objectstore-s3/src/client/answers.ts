import type { Readable } from 'node:stream'
import type { S3Client } from '@aws-sdk/client-s3'
import { decoderOf, encodingOf } from '@nexus/objectstore'

/** The part of an HTTP answer that is looked at. */
interface RawAnswer {
  statusCode: number
  headers: Record<string, string | undefined>
  body: Readable
}

/** Answers whose success is an empty one. */
const EMPTY = new Set(['DeleteObjectCommand', 'AbortMultipartUploadCommand'])

/**
 * Looks at answers before the SDK reads them. Documents that a proxy compressed are unpacked; of an object nothing is touched
 * but the checksums, which are not those of the bytes that travel (see `downloadObject`). A page that says yes to a delete
 * is no success of the store.
 */
export function watchAnswers(client: S3Client): void {
  client.middlewareStack.add(
    (next, { commandName = '' }) =>
      async (args) => {
        const output = await next(args)
        const answer = output.response as RawAnswer
        const { statusCode, headers } = answer
        const encoding = encodingOf(headers['content-encoding'])
        if (encoding !== undefined && commandName === 'GetObjectCommand' && statusCode < 300) {
          for (const name of Object.keys(headers)) if (name.startsWith('x-amz-checksum-')) delete headers[name]
        } else if (encoding !== undefined && commandName !== 'HeadObjectCommand') {
          answer.body = decoderOf(encoding, answer.body, commandName)
          delete headers['content-encoding']
        }
        const length = headers['content-length'] ?? (headers['transfer-encoding'] === undefined ? '0' : 'unknown')
        if (EMPTY.has(commandName) && statusCode === 200 && length !== '0') {
          answer.body.destroy()
          const problem = 'the answer has a document where the store sends none: is a proxy or portal in between?'
          throw Object.assign(new Error(problem), { name: 'UnexpectedAnswer', $metadata: { httpStatusCode: 200 } })
        }
        return output
      },
    // The nearest to the wire.
    { step: 'deserialize', priority: 'low', name: 'nexusWatchAnswers' },
  )
}
