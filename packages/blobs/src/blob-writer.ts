import { createHash } from 'node:crypto'
import { basename, dirname } from 'node:path'
import { NexusError, systemCode } from '@nexus/errors'
import { BlobCorruptError } from './blob-errors.ts'
import { DeferredSync } from './deferred-sync.ts'
import { DirectorySync } from './directory-sync.ts'
import type { Failpoint } from './failpoint.ts'
import {
  CREATE_FLAGS,
  dataSync,
  DIRECTORY_MODE,
  FILE_MODE,
  READ_FLAGS,
  WRITE_THROUGH_FLAG,
  writeFully,
  writeFullySync,
  type BlobFileSystem,
} from './file-system.ts'
import { blobPaths, encodeMeta, type BlobPaths } from './layout.ts'
import { readMediaType } from './read-blob.ts'
import { claimTempName, releaseTempName } from './temp-file.ts'

/** What a put left on disk. */
export interface WrittenBlob {
  sha256: string
  sizeBytes: number
  mediaType: string
  /** False when the blob was there already. */
  isNew: boolean
}

export interface BlobWriterOptions {
  dir: string
  fs: BlobFileSystem
  durable: boolean
  failpoint: Failpoint
  now: () => number
  /** Called synchronously whenever a put relies on a blob that exists. */
  onUse: (sha256: string) => void
  /** A `.meta` file could not be made durable. */
  onMetaError: (error: unknown, path: string) => void
}

interface TempFile {
  path: string
  fd: number
}

/**
 * Puts blobs on disk. Order, for every new blob: the temp file is written and synced, the `.meta` is put in place, the
 * temp file renamed to `.bin`, the directory synced. So a `.bin` under its final name is whole and has its `.meta`, and a
 * put that resolved survives a power loss.
 *
 * The few bytes of the `.meta` are synced right after the put: a second fsync per blob, in line, would cost a third of
 * the throughput, and a blob whose `.meta` was torn by a power loss still reads, with an empty media type. `flush` waits
 * for them.
 *
 * @see spec 40
 */
export class BlobWriter {
  readonly #options: BlobWriterOptions
  readonly #fs: BlobFileSystem
  readonly #directories: DirectorySync
  readonly #metas: DeferredSync
  readonly #inFlight = new Map<string, Promise<WrittenBlob>>()
  readonly #durableShards = new Set<string>()
  #root: Promise<void> | undefined

  constructor(options: BlobWriterOptions) {
    this.#options = options
    this.#fs = options.fs
    this.#directories = new DirectorySync(options.fs)
    this.#metas = new DeferredSync(options.fs, () => options.failpoint('blobs:meta-synced'), options.onMetaError)
  }

  /** Resolves when the `.meta` files of all puts that resolved are durable too. */
  flush(): Promise<void> {
    return this.#metas.drain()
  }

  isInFlight(sha256: string): boolean {
    return this.#inFlight.has(sha256)
  }

  /**
   * Puts bytes that are in memory.
   *
   * @param overlap whether other puts run beside this one, so that the large write is worth a trip to the thread pool
   */
  putBytes(data: Uint8Array, mediaType: string, overlap: boolean, expected?: string): Promise<WrittenBlob> {
    const sha256 = createHash('sha256').update(data).digest('hex')
    checkExpected(sha256, expected)
    return this.#once(sha256, data.length, async (paths) => {
      this.#ensureShard(paths.shard)
      const durable = this.#options.durable
      const bin = this.#create(paths.shard, durable ? WRITE_THROUGH_FLAG : 0)
      await this.#publish(paths, bin, encodeMeta(mediaType, data.length), async () => {
        this.#options.failpoint('blobs:temp-created')
        if (!durable && !overlap) writeFullySync(this.#fs, bin.fd, data)
        else await writeFully(this.#fs, bin.fd, data)
        this.#options.failpoint('blobs:chunk-written')
        if (durable && WRITE_THROUGH_FLAG === 0) await dataSync(this.#fs, bin.fd)
      })
      return { sha256, sizeBytes: data.length, mediaType, isNew: true }
    })
  }

  /** Puts a stream: hashed while it is written to a temp file beside the shards, so memory holds one chunk. */
  async putChunks(chunks: AsyncIterable<Uint8Array>, mediaType: string, expected?: string): Promise<WrittenBlob> {
    this.#ensureRoot()
    const bin = this.#create(this.#options.dir, 0)
    const hash = createHash('sha256')
    let sizeBytes = 0
    let open = true
    try {
      this.#options.failpoint('blobs:temp-created')
      for await (const chunk of chunks) {
        // The write runs in the thread pool while the same bytes are hashed here.
        const written = writeFully(this.#fs, bin.fd, chunk)
        hash.update(chunk)
        await written
        sizeBytes += chunk.length
        this.#options.failpoint('blobs:chunk-written')
      }
      const sha256 = hash.digest('hex')
      checkExpected(sha256, expected)
      return await this.#once(sha256, sizeBytes, async (paths) => {
        this.#ensureShard(paths.shard)
        open = false
        await this.#publish(paths, bin, encodeMeta(mediaType, sizeBytes), async () => {
          if (this.#options.durable) await dataSync(this.#fs, bin.fd)
        })
        return { sha256, sizeBytes, mediaType, isNew: true }
      })
    } finally {
      if (open) this.#discard(bin)
    }
  }

  /** One writer per digest: whoever comes second waits and finds the blob there. */
  async #once(
    sha256: string,
    sizeBytes: number,
    write: (paths: BlobPaths) => Promise<WrittenBlob>,
  ): Promise<WrittenBlob> {
    for (let running = this.#inFlight.get(sha256); running !== undefined; running = this.#inFlight.get(sha256)) {
      const written = await running.catch(() => undefined)
      if (written !== undefined) return { ...written, isNew: false }
    }
    const paths = blobPaths(this.#options.dir, sha256)
    // A .bin of another size is not this blob (a copy that was cut short elsewhere); the rename replaces it whole.
    const stat = this.#fs.lstatSync(paths.bin, { throwIfNoEntry: false })
    if (stat?.isFile() === true && stat.size === sizeBytes) return this.#renew(sha256, sizeBytes, paths)
    const work = write(paths)
    this.#inFlight.set(sha256, work)
    try {
      return await work
    } finally {
      this.#inFlight.delete(sha256)
      if (this.#inFlight.size === 0) void this.#metas.drain()
    }
  }

  /** The blob exists: it becomes the most recently used, and durable too, whoever wrote it and however far they got. */
  async #renew(sha256: string, sizeBytes: number, paths: BlobPaths): Promise<WrittenBlob> {
    const nowSeconds = this.#options.now() / 1000
    // Before anything is awaited: a sweep looks at the mtime and unlinks in one go, so either it sees this touch or we
    // see that the file is gone.
    this.#fs.lutimesSync(paths.bin, nowSeconds, nowSeconds)
    this.#options.onUse(sha256)
    const mediaType = readMediaType(this.#fs, paths.meta)
    if (this.#options.durable) {
      const fd = this.#fs.openSync(paths.bin, READ_FLAGS)
      try {
        await dataSync(this.#fs, fd)
      } finally {
        this.#fs.closeSync(fd)
      }
      this.#metas.add(paths.meta)
      this.#ensureShard(paths.shard)
      await this.#settleDirectory(paths.shard)
      if (this.#inFlight.size === 0) void this.#metas.drain()
    }
    return { sha256, sizeBytes, mediaType, isNew: false }
  }

  async #publish(paths: BlobPaths, bin: TempFile, metaText: string, writeBin: () => Promise<void>): Promise<void> {
    const { durable, failpoint } = this.#options
    try {
      await writeBin()
      this.#close(bin)
      failpoint('blobs:temp-synced')
      this.#placeMeta(paths, Buffer.from(metaText))
      failpoint('blobs:meta-written')
      this.#fs.renameSync(bin.path, paths.bin)
      failpoint('blobs:bin-renamed')
    } catch (error) {
      this.#discard(bin)
      throw error
    }
    releaseTempName(basename(bin.path))
    if (!durable) return
    this.#metas.add(paths.meta)
    await this.#settleDirectory(paths.shard)
    failpoint('blobs:directory-synced')
  }

  /**
   * Puts the `.meta` in place, in one go as far as this process can see. Without a `.bin` beside it nobody reads it, so a
   * fresh one needs no temp file; a leftover of an earlier blob is replaced by a rename.
   */
  #placeMeta(paths: BlobPaths, text: Buffer): void {
    let meta: TempFile
    try {
      meta = { path: paths.meta, fd: this.#fs.openSync(paths.meta, CREATE_FLAGS, FILE_MODE) }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      meta = this.#create(paths.shard, 0)
    }
    try {
      writeFullySync(this.#fs, meta.fd, text)
      this.#close(meta)
      if (meta.path !== paths.meta) this.#fs.renameSync(meta.path, paths.meta)
    } catch (error) {
      this.#discard(meta)
      throw error
    }
    releaseTempName(basename(meta.path))
  }

  #create(dir: string, extraFlags: number): TempFile {
    const name = claimTempName()
    const path = `${dir}/${name}`
    try {
      return { path, fd: this.#fs.openSync(path, CREATE_FLAGS | extraFlags, FILE_MODE) }
    } catch (error) {
      releaseTempName(name)
      throw error
    }
  }

  #close(temp: TempFile): void {
    const fd = temp.fd
    if (fd < 0) return
    temp.fd = -1
    this.#fs.closeSync(fd)
  }

  #discard(temp: TempFile): void {
    try {
      this.#close(temp)
      this.#fs.unlinkSync(temp.path)
    } catch {
      // Renamed already, or the disk refuses: the next sweep takes what is left. The first error is the one to report.
    }
    releaseTempName(basename(temp.path))
  }

  /**
   * Makes the store's directory on the first put, and remembers the fsync of every directory above it: not only of those
   * made here, because a process that died may have made some and not got to their fsync.
   */
  #ensureRoot(): void {
    const { dir, durable } = this.#options
    if (this.#root !== undefined && isDirectory(this.#fs, dir)) return
    this.#fs.mkdirSync(dir, { recursive: true, mode: DIRECTORY_MODE })
    if (!isDirectory(this.#fs, dir)) throw inTheWay(dir)
    this.#durableShards.clear()
    this.#root = durable ? this.#syncAbove(dir) : Promise.resolve()
    this.#root.catch(() => {
      this.#root = undefined
    })
  }

  async #syncAbove(dir: string): Promise<void> {
    const above: string[] = []
    for (let path = dir; path !== dirname(path); path = dirname(path)) above.push(dirname(path))
    await Promise.all(
      above.map((path) =>
        this.#directories.sync(path).catch((error: unknown) => {
          // A directory that we may not open was not made by us, nor by a process like us.
          if (systemCode(error) !== 'EACCES') throw error
        }),
      ),
    )
  }

  async #syncAll(dirs: readonly string[]): Promise<void> {
    await Promise.all(dirs.map((dir) => this.#directories.sync(dir)))
  }

  /** Looks each time: whoever removes a directory by hand, or plants a link in its place, is noticed. */
  #ensureShard(shard: string): void {
    const stat = this.#fs.lstatSync(shard, { throwIfNoEntry: false })
    if (stat === undefined) {
      this.#ensureRoot()
      this.#durableShards.delete(shard)
      this.#fs.mkdirSync(shard, { mode: DIRECTORY_MODE, recursive: true })
      return
    }
    if (!stat.isDirectory()) throw inTheWay(shard)
    if (this.#root === undefined) this.#ensureRoot()
  }

  /** Makes the renames in a shard durable, and once per process the shard's own entry and those above it. */
  async #settleDirectory(shard: string): Promise<void> {
    if (this.#durableShards.has(shard)) return this.#directories.sync(shard)
    await Promise.all([this.#syncAll([shard, this.#options.dir]), this.#root])
    this.#durableShards.add(shard)
  }
}

function checkExpected(sha256: string, expected: string | undefined): void {
  if (expected === undefined || expected === sha256) return
  throw new BlobCorruptError([{ sha256: expected, actualSha256: sha256 }], 'blobs.put')
}

/** A link among the blobs would have them written to wherever it points. */
function inTheWay(path: string): NexusError {
  const message = `${path} is in the way of a blob directory: move it aside`
  return new NexusError('PRECONDITION', message, { op: 'blobs.put', key: path })
}

function isDirectory(fs: BlobFileSystem, path: string): boolean {
  return fs.lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true
}
