import { pipeline, type Readable, type Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'

const DECODERS: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
}

/** An encoding that changes the bytes, from a `Content-Encoding` header; undefined where there is none. */
export function encodingOf(header: string | undefined): string | undefined {
  const encoding = header?.trim().toLowerCase() ?? ''
  // Of the framing of an upload that some stores keep as a property of the object.
  return encoding === '' || encoding === 'identity' || encoding === 'aws-chunked' ? undefined : encoding
}

/** The bytes as they were before something on the way encoded them. Its failures are those of a transfer that was cut. */
export function decoderOf(encoding: string, body: Readable): Readable {
  const create = DECODERS[encoding]
  if (create === undefined) {
    body.destroy()
    throw new EncodedAnswer(encoding)
  }
  // The failure of either side is the decoder's.
  return pipeline(body, create(), () => undefined)
}

/** An answer that was encoded on its way, by what nobody asked for it. */
export class EncodedAnswer extends Error {
  // The mark of an SDK's error, by which it is taken for one of the request.
  readonly $metadata: Record<string, never> = {}

  constructor(encoding: string) {
    super(
      `the answer came with Content-Encoding: ${encoding}, which is not the store's: ` +
        'a proxy on the way recodes answers, exempt the store from that',
    )
    this.name = 'EncodedAnswer'
  }
}
