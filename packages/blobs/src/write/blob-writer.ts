import { createHash } from 'node:crypto'
import { dirname } from 'node:path'
import { NexusError, systemCode } from '@nexus/errors'
import { engineTempName, type SyncFailpoint } from '@nexus/host'
import { BlobCorruptError } from '../blob-errors.ts'
import type { BlobFailpoint } from '../failpoints.ts'
import { DeferredSync } from './deferred-sync.ts'
import { DirectorySync } from './directory-sync.ts'
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
} from '../file-system.ts'
import { blobPaths, encodeMeta, type BlobPaths } from '../layout.ts'
import { readMeta } from '../read/read-blob.ts'
import { holdShard, holdStore, type HeldShard } from '../store-directory.ts'

/** What a put left on disk. */
export interface WrittenBlob {
  sha256: string
  sizeBytes: number
  mediaType: string
  /** False when the blob was there already. */
  isNew: boolean
}

/** A blob that is being put, and where. */
interface Place {
  readonly shard: HeldShard
  readonly paths: BlobPaths
  readonly sha256: string
  readonly sizeBytes: number
  readonly mediaType: string
}

export interface BlobWriterOptions {
  dir: string
  fs: BlobFileSystem
  durable: boolean
  failpoint: SyncFailpoint<BlobFailpoint>
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
 * put that resolved survives a power loss. A whole `.meta` that is there already is never rewritten: a commit may name it.
 *
 * All of it happens in directories that are held open, so that a link that takes the name of one leads nowhere.
 *
 * The few bytes of the `.meta` are synced right after the put: a second fsync per blob, in line, would cost a third of
 * the throughput, and a blob whose `.meta` was torn by a power loss still reads, with an empty media type. `flush` waits
 * for them.
 *
 * @see docs/formats/session-tree.md
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
    return this.#once(sha256, data.length, mediaType, async (place) => {
      const durable = this.#options.durable
      const bin = this.#create(place.shard, durable ? WRITE_THROUGH_FLAG : 0)
      return this.#publish(place, bin, async () => {
        this.#options.failpoint('blobs:temp-created')
        if (!durable && !overlap) writeFullySync(this.#fs, bin.fd, data)
        else await writeFully(this.#fs, bin.fd, data)
        this.#options.failpoint('blobs:chunk-written')
        if (durable && WRITE_THROUGH_FLAG === 0) await dataSync(this.#fs, bin.fd)
      })
    })
  }

  /** Puts a stream: hashed while it is written to a temp file beside the shards, so memory holds one chunk. */
  async putChunks(chunks: AsyncIterable<Uint8Array>, mediaType: string, expected?: string): Promise<WrittenBlob> {
    this.#ensureRoot()
    const store = this.#hold(() => holdStore(this.#fs, this.#options.dir), this.#options.dir)
    const hash = createHash('sha256')
    let sizeBytes = 0
    let bin: TempFile | undefined
    try {
      const temp = (bin = this.#create(store, 0))
      this.#options.failpoint('blobs:temp-created')
      for await (const chunk of chunks) {
        // The write runs in the thread pool while the same bytes are hashed here.
        const written = writeFully(this.#fs, temp.fd, chunk)
        hash.update(chunk)
        await written
        sizeBytes += chunk.length
        this.#options.failpoint('blobs:chunk-written')
      }
      const sha256 = hash.digest('hex')
      checkExpected(sha256, expected)
      return await this.#once(sha256, sizeBytes, mediaType, async (place) => {
        bin = undefined
        return this.#publish(place, temp, async () => {
          if (this.#options.durable) await dataSync(this.#fs, temp.fd)
        })
      })
    } finally {
      if (bin !== undefined) this.#discard(bin)
      store.close()
    }
  }

  /** One writer per digest: who comes second waits and finds the blob there. */
  async #once(
    sha256: string,
    sizeBytes: number,
    mediaType: string,
    write: (place: Place) => Promise<WrittenBlob>,
  ): Promise<WrittenBlob> {
    for (let running = this.#inFlight.get(sha256); running !== undefined; running = this.#inFlight.get(sha256)) {
      const written = await running.catch(() => undefined)
      if (written !== undefined) return { ...written, isNew: false }
    }
    const paths = blobPaths(this.#options.dir, sha256)
    this.#ensureShard(paths.shard)
    const shard = this.#hold(() => holdShard(this.#fs, this.#options.dir, sha256, { create: true }), paths.shard)
    const place = { shard, paths, sha256, sizeBytes, mediaType }
    try {
      // A .bin of another size is not this blob (a copy that was cut short elsewhere); the rename replaces it whole.
      const stat = this.#fs.lstatSync(shard.bin, { throwIfNoEntry: false })
      if (stat?.isFile() === true && stat.size === sizeBytes) return await this.#renew(place)
      const work = write(place)
      this.#inFlight.set(sha256, work)
      return await work
    } finally {
      shard.close()
      this.#inFlight.delete(sha256)
      if (this.#inFlight.size === 0) void this.#metas.drain()
    }
  }

  /** The blob exists: it becomes the most recently used, and durable too, however far the put that wrote it got. */
  async #renew(place: Place): Promise<WrittenBlob> {
    const { shard, paths, sha256, sizeBytes } = place
    const nowSeconds = this.#options.now() / 1000
    // Before anything is awaited: a sweep looks at the mtime and unlinks in one go, so either it sees this touch or we
    // see that the file is gone.
    this.#fs.lutimesSync(shard.bin, nowSeconds, nowSeconds)
    this.#options.onUse(sha256)
    const mediaType = this.#placeMeta(place)
    if (this.#options.durable) {
      const fd = this.#fs.openSync(shard.bin, READ_FLAGS)
      try {
        await dataSync(this.#fs, fd)
      } finally {
        this.#fs.closeSync(fd)
      }
      this.#metas.add(paths.meta)
      await this.#settleDirectory(paths.shard)
    }
    return { sha256, sizeBytes, mediaType, isNew: false }
  }

  async #publish(place: Place, bin: TempFile, writeBin: () => Promise<void>): Promise<WrittenBlob> {
    const { durable, failpoint } = this.#options
    const { shard, paths, sha256, sizeBytes } = place
    let mediaType: string
    try {
      await writeBin()
      this.#close(bin)
      failpoint('blobs:temp-synced')
      mediaType = this.#placeMeta(place)
      failpoint('blobs:meta-written')
      this.#fs.renameSync(bin.path, shard.bin)
      failpoint('blobs:bin-renamed')
    } catch (error) {
      this.#discard(bin)
      throw error
    }
    if (durable) {
      this.#metas.add(paths.meta)
      await this.#settleDirectory(paths.shard)
      failpoint('blobs:directory-synced')
    }
    return { sha256, sizeBytes, mediaType, isNew: true }
  }

  /**
   * Makes sure that the blob has a `.meta`, and gives its media type: that of a whole one that is there, which stays byte
   * for byte. A fresh one needs no temp file, because a torn one reads as none; a torn one is replaced by a rename.
   */
  #placeMeta({ shard, sizeBytes, mediaType }: Place): string {
    const kept = readMeta(this.#fs, shard.meta)
    if (kept?.sizeBytes === sizeBytes) return kept.mediaType
    let meta: TempFile
    try {
      meta = { path: shard.meta, fd: this.#fs.openSync(shard.meta, CREATE_FLAGS, FILE_MODE) }
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error
      meta = this.#create(shard, 0)
    }
    try {
      writeFullySync(this.#fs, meta.fd, Buffer.from(encodeMeta(mediaType, sizeBytes)))
      this.#close(meta)
      if (meta.path !== shard.meta) this.#fs.renameSync(meta.path, shard.meta)
    } catch (error) {
      this.#discard(meta)
      throw error
    }
    return mediaType
  }

  #create(directory: { at(name: string): string }, extraFlags: number): TempFile {
    const path = directory.at(engineTempName())
    return { path, fd: this.#fs.openSync(path, CREATE_FLAGS | extraFlags, FILE_MODE) }
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

  /** Looks each time: a directory that was removed by hand is made, and made durable, again. */
  #ensureShard(shard: string): void {
    const isThere = this.#fs.lstatSync(shard, { throwIfNoEntry: false }) !== undefined
    if (!isThere) this.#durableShards.delete(shard)
    if (!isThere || this.#root === undefined) this.#ensureRoot()
  }

  /** A link among the blobs would have them written to wherever it points. */
  #hold<T>(hold: () => T, path: string): T {
    try {
      return hold()
    } catch (error) {
      const code = systemCode(error)
      throw code === 'ENOTDIR' || code === 'ELOOP' ? inTheWay(path) : error
    }
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

function inTheWay(path: string): NexusError {
  const message = `${path} is in the way of a blob directory: move it aside`
  return new NexusError('PRECONDITION', message, { op: 'blobs.put', key: path })
}

function isDirectory(fs: BlobFileSystem, path: string): boolean {
  return fs.lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true
}
