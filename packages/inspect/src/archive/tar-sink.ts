import { createWriteStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { pack, type Pack } from 'tar-stream'
import { CompressStream } from 'zstd-napi'
import type { ArchiveItem } from './archive-format.ts'
import type { ArchiveSink, ItemAttributes } from './archive-sink.ts'

const TYPES = { file: 'file', directory: 'directory', link: 'symlink' } as const
// What eleven octal digits, and the 32 bits that are kept of them, can say. The PAX record has the whole time.
const LAST_SECOND = 2n ** 31n - 1n
const NS = 1_000_000_000n

/** Writes an archive as one compressed tar, piece by piece. */
export class TarSink implements ArchiveSink {
  readonly #path: string
  readonly #pack: Pack = pack()
  readonly #written: Promise<void>

  constructor(path: string) {
    this.#path = path
    const compress = new CompressStream({ compressionLevel: 3, checksumFlag: true })
    this.#written = pipeline(this.#pack, compress, createWriteStream(path, { flags: 'wx', mode: 0o600 }))
    // Awaited at the end; a failure before that ends the entry that is being written.
    this.#written.catch(() => undefined)
  }

  async add(
    { name, kind, sizeBytes, target }: ArchiveItem,
    { mode, mtimeNs }: ItemAttributes,
    content?: AsyncIterable<Uint8Array>,
  ): Promise<void> {
    const seconds = mtimeNs < 0n ? 0n : mtimeNs / NS > LAST_SECOND ? LAST_SECOND : mtimeNs / NS
    const header = {
      name,
      type: TYPES[kind],
      size: sizeBytes,
      mode,
      uid: 0,
      gid: 0,
      mtime: new Date(Number(seconds) * 1000),
      pax: { mtime: decimalSeconds(mtimeNs) },
      ...(kind === 'link' ? { linkname: target } : {}),
    }
    try {
      await new Promise<void>((resolve, reject) => {
        const entry = this.#pack.entry(header, (error) => (error ? reject(error) : resolve()))
        if (content === undefined) entry.end(null)
        else pipeline(Readable.from(content), entry).catch(reject)
      })
    } catch (error) {
      // A full disk ends the entry as "destroyed"; why is what the file says.
      throw await this.#written.then(
        () => error,
        (cause: unknown) => cause,
      )
    }
  }

  async finish(): Promise<void> {
    this.#pack.finalize()
    await this.#written
    const file = await open(this.#path, 'r+')
    try {
      await file.sync()
    } finally {
      await file.close()
    }
  }

  async destroy(): Promise<void> {
    this.#pack.destroy()
    await this.#written.catch(() => undefined)
  }
}

function decimalSeconds(ns: bigint): string {
  const digits = String(ns < 0n ? -ns : ns).padStart(10, '0')
  return `${ns < 0n ? '-' : ''}${digits.slice(0, -9)}.${digits.slice(-9)}`
}
