import { Readable } from 'node:stream'
import type { Snapshot } from '@nexus/objectstore'

/** A part of a file as the body of a request, with text before and after it. */
export function partStream(
  file: Snapshot,
  { offset, length, head = '', tail = '' }: { offset: number; length: number; head?: string; tail?: string },
  onBytes: (bytes: number) => void,
): Readable {
  async function* pieces(): AsyncGenerator<Buffer> {
    if (head !== '') yield Buffer.from(head)
    for await (const chunk of file.stream(offset, length) as AsyncIterable<Buffer>) {
      yield chunk
      onBytes(chunk.length)
    }
    if (tail !== '') yield Buffer.from(tail)
  }
  // One chunk ahead: what waits in the stream is memory per request.
  return Readable.from(pieces(), { objectMode: true, highWaterMark: 1 })
}
