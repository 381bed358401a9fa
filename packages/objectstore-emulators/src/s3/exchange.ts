import type { IncomingMessage } from 'node:http'
import type { Fault } from '../faults/index.ts'
import type { Address } from './address.ts'
import type { BodyStore } from './body-store.ts'
import type { Bucket } from './bucket.ts'
import type { S3Quirks } from './quirks.ts'

/** One request on its way through the emulator. */
export interface Exchange extends Address {
  request: IncomingMessage
  faults: readonly Fault[]
  quirks: S3Quirks
  bodies: BodyStore
  bucketState: Bucket
}

/** What is answered. */
export interface Answer {
  status: number
  headers?: Record<string, string>
  /** A document, or the bytes of an object. */
  body?: string | { sizeBytes: number; read: (bytes: number) => AsyncIterable<Buffer> }
}
