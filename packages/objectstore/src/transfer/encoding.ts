import { pipeline, type Readable, type Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { ContentEncodingError } from '../errors.ts'

const DECODERS: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
}

/** An encoding that changes the bytes, from a `Content-Encoding` header; undefined where there is none. */
export function encodingOf(header: string | undefined): string | undefined {
  const encoding = header?.trim().toLowerCase() ?? ''
  // Of the framing of an upload, which some stores keep as a property of the object.
  return encoding === '' || encoding === 'identity' || encoding === 'aws-chunked' ? undefined : encoding
}

/**
 * The bytes as they were before a proxy on the way encoded them.
 *
 * @throws ContentEncodingError for an encoding that is not known
 */
export function decoderOf(encoding: string, body: Readable, key: string): Readable {
  const create = DECODERS[encoding]
  if (create === undefined) {
    body.destroy()
    throw new ContentEncodingError(key, encoding)
  }
  // The failure of either side is the decoder's.
  return pipeline(body, create(), () => undefined)
}
