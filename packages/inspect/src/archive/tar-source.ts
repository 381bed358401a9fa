import { createReadStream, type ReadStream } from 'node:fs'
import { Transform, type TransformCallback, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { isNexusError } from '@nexus/errors'
import { extract, type Extract, type Header } from 'tar-stream'
import { DecompressStream } from 'zstd-napi'
import { MOST_MANIFEST_BYTES, refused, type ArchiveItem } from './archive-format.ts'
import type { ArchiveSource } from './archive-source.ts'

const TYPES = { file: 'file', directory: 'directory', link: 'symlink' } as const
const BLOCK_BYTES = 512
const END_BYTES = 2 * BLOCK_BYTES
// Headers before and of the manifest; tar-stream takes none above 4 MiB.
const FIRST_HEADERS_BYTES = 16 * 1024 * 1024

type Entry = AsyncIterable<Uint8Array> & { header: Header & { byteOffset?: number } }

/** Reads an archive from one compressed tar, piece by piece. Nothing in it is believed that its manifest doesn't say. */
export class TarSource implements ArchiveSource {
  readonly #tar: Extract = extract()
  readonly #entries: AsyncIterator<Entry>
  readonly #meter = new Meter(MOST_MANIFEST_BYTES + FIRST_HEADERS_BYTES)
  readonly #input: ReadStream
  readonly #read: Promise<void>
  /** Where the latest entry ends, in bytes of the tar. */
  #endOfEntry = 0

  constructor(path: string) {
    this.#input = createReadStream(path)
    this.#entries = this.#tar[Symbol.asyncIterator]() as AsyncIterator<Entry>
    this.#read = pipeline(this.#input, new DecompressStream(), this.#meter, this.#tar as unknown as Writable)
    this.#read.catch(() => undefined)
  }

  async take({ name, kind, sizeBytes, target }: ArchiveItem): Promise<AsyncIterable<Uint8Array> | undefined> {
    const entry = await this.#next(name)
    const { header } = entry
    const type = header.type as string | null
    const found = type === 'directory' ? header.name.replace(/\/$/, '') : header.name
    if (found !== name) throw refused(`it holds ${shown(found)} where ${shown(name)} must be`)
    if (type !== TYPES[kind]) {
      throw refused(`${shown(name)} is a ${type ?? 'thing of no known kind'} in it, and must be a ${kind}`)
    }
    if (header.size !== sizeBytes)
      throw refused(`${shown(name)} has ${header.size} bytes in it, and must have ${sizeBytes}`)
    if (kind === 'link' && header.linkname !== target) throw refused(`the link ${shown(name)} leads elsewhere in it`)
    return kind === 'file' ? this.#content(entry) : undefined
  }

  async takeText(name: string, mostBytes: number): Promise<Buffer> {
    const entry = await this.#next(name)
    const { header } = entry
    if (header.name !== name || header.type !== 'file') {
      throw refused(`it holds ${shown(header.name)} where ${name} must be`)
    }
    if (header.size > mostBytes) throw refused(`${name} has ${header.size} bytes, and may have ${mostBytes}`)
    const pieces: Uint8Array[] = []
    for await (const piece of this.#content(entry)) pieces.push(piece)
    return Buffer.concat(pieces)
  }

  expect(totalBytes: number): void {
    this.#meter.mostBytes = totalBytes
  }

  async finish(): Promise<void> {
    const next = await this.#explaining(this.#entries.next())
    if (next.done !== true) throw refused(`it holds ${shown(next.value.header.name)} after its end`)
    await this.#explaining(this.#read)
    const { bytes, tail } = this.#meter
    if (bytes < this.#endOfEntry + END_BYTES || tail.some((byte) => byte !== 0)) throw refused('its end is missing')
  }

  async close(): Promise<void> {
    this.#input.destroy()
    this.#tar.destroy()
    await this.#read.catch(() => undefined)
  }

  async #next(wanted: string): Promise<Entry> {
    const next = await this.#explaining(this.#entries.next())
    if (next.done === true) throw refused(`it ends before ${shown(wanted)}`)
    const { byteOffset = 0, size } = next.value.header
    this.#endOfEntry = byteOffset + Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES
    return next.value
  }

  async *#content(entry: Entry): AsyncGenerator<Uint8Array> {
    try {
      yield* entry
    } catch (error) {
      throw this.#explained(error)
    }
  }

  async #explaining<T>(reading: Promise<T>): Promise<T> {
    try {
      return await reading
    } catch (error) {
      throw this.#explained(error)
    }
  }

  #explained(error: unknown): unknown {
    if (isNexusError(error)) return error
    return refused(`it can't be read (${error instanceof Error ? error.message : String(error)})`, error)
  }
}

/** Lets bytes through and counts them, up to a limit; keeps the last ones. */
class Meter extends Transform {
  mostBytes: number
  bytes = 0
  tail: Buffer = Buffer.alloc(0)

  constructor(mostBytes: number) {
    super()
    this.mostBytes = mostBytes
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.bytes += chunk.length
    if (this.bytes > this.mostBytes) return done(refused('it unpacks to more than its manifest says'))
    this.tail = Buffer.concat([this.tail, chunk.subarray(-END_BYTES)]).subarray(-END_BYTES)
    done(null, chunk)
  }
}

/** A name of somebody, for a message. */
function shown(name: string): string {
  const text = JSON.stringify(name)
  return text.length <= 200 ? text : `${text.slice(0, 200)}..."`
}
