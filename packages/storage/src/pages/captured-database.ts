import { basename, join, resolve } from 'node:path'
import { NexusError } from '@nexus/errors'
import { AsyncLock, Slices, type Logger, type SyncFailpoint } from '@nexus/host'
import type { Copier } from '../copy/copier.ts'
import type { Connection } from '../open/connection.ts'
import { fileSizeBytes } from '../open/file-size.ts'
import { closedError, isBusy } from '../open/sqlite-error.ts'
import type { PluginDatabase } from '../snapshot/snapshot-databases.ts'
import { ChangeLog } from './change-log.ts'
import { HeldInstant, type DatabaseInstant } from './instant.ts'
import { areLocked, findLockedFiles, type LockedFiles, type LockState } from './pinned/locked-files.ts'
import type { PageImage } from './pinned/page-image.ts'
import type { PageRange } from './pinned/page-ranges.ts'
import type { PageStep } from './pinned/page-steps.ts'
import { Pin } from './pinned/pin.ts'
import { PinnedDatabase } from './pinned/pinned-database.ts'
import { overtakeWriters } from './pinned/overtake-writers.ts'
import { copiedImage, lateImage, serializedImage } from './plain-image.ts'
import { WalMismatchError } from './pinned/wal-frames.ts'
import { isSameState, readWalIndex, type WalIndex } from './pinned/wal-index.ts'

/** What a capture of one database works with. */
export interface CaptureContext {
  readonly copier: Pick<Copier, 'run'>
  readonly logger: Logger
  readonly step: SyncFailpoint<PageStep>
  /** Opens a read-only connection that waits for no lock. */
  readonly connect: (database: PluginDatabase) => Connection
  readonly newId: () => string
  /** Whether this platform shows the locks of a descriptor, and its SQLite is new enough. */
  readonly canPin: () => boolean
  /** Up to here a database is read whole, without a pin. */
  readonly smallBytes: number
}

/** What a capture is asked. */
export interface CaptureRequest {
  /** By live path, the id of the instant that each database is compared with. */
  readonly since: ReadonlyMap<string, string>
  /** Where copies go that can't be done without. */
  readonly dir: string
  readonly signal: AbortSignal | undefined
}

/** A WAL of so many frames is emptied without waiting for the next capture. */
const LONG_WAL_FRAMES = 1000
/** One that writers keep from being emptied is emptied under the write lock. */
const TOO_LONG_WAL_FRAMES = 4 * LONG_WAL_FRAMES
/** A pin on a database that has not changed for so long is let go. */
const IDLE_MS = 10 * 60_000

/** The state of a database without a pin that its latest instant is of. */
interface Resting {
  readonly index: WalIndex
  readonly pageSize: number
  readonly pageCount: number
}

/**
 * One database, taken instant by instant in the cheapest way that is right: nothing when nothing was committed; the pages that
 * changed, under a pin; all pages; or a copy that SQLite makes.
 */
export class CapturedDatabase {
  readonly #database: PluginDatabase
  readonly #context: CaptureContext
  readonly #lock = new AsyncLock()
  readonly #log = new ChangeLog()
  #files: LockedFiles | undefined
  #pinned: PinnedDatabase | undefined
  #resting: Resting | undefined
  #held: HeldInstant | undefined
  #settling: Promise<void> | undefined
  #lastSeen: { index: WalIndex; atMs: number } | undefined
  #isLossTold = false
  #isClosed = false

  constructor(database: PluginDatabase, context: CaptureContext) {
    this.#database = database
    this.#context = context
  }

  /** Whether a pin keeps its WAL, which then is for this class to empty. */
  get isPinned(): boolean {
    return this.#pinned !== undefined
  }

  /** Takes it as it is now. Throws as `StorageManager.capture` says, with SQLite's own errors not yet explained. */
  capture(request: CaptureRequest): Promise<DatabaseInstant> {
    return this.#lock.run(async () => {
      const { path } = this.#database.place
      if (this.#isClosed) throw closedError(path)
      if (this.#held?.isReleased === false) {
        const message = `An instant of ${path} is held: release it before the next is taken`
        throw new NexusError('PRECONDITION', message, { op: 'storage.capture', key: path })
      }
      await this.#held?.ended
      return this.#take(request)
    })
  }

  /** Looks after the pin while nobody captures: to be called every second or so. */
  tick(nowMs: number): void {
    const pinned = this.#pinned
    if (pinned === undefined || this.#isClosed || this.#held !== undefined || this.#settling !== undefined) return
    const { newest } = pinned
    if (newest === undefined) return
    if (this.#lastSeen === undefined || !isSameState(this.#lastSeen.index, newest))
      this.#lastSeen = { index: newest, atMs: nowMs }
    if (newest.lastFrame > LONG_WAL_FRAMES && !pinned.isSettled) this.#settle()
    else if (nowMs - this.#lastSeen.atMs > IDLE_MS) this.#rest()
  }

  /** Lets go of everything, once reads that are on their way have ended. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#lock.run(async () => {
      this.#held?.release()
      await this.#held?.ended
    })
    await this.#settling
    this.#unpin()
  }

  async #take(request: CaptureRequest): Promise<DatabaseInstant> {
    const locks = this.#findLocks()
    if (locks === 'lost') return this.#copy(request, 'lost')
    this.#isLossTold = false
    const { pluginId, place } = this.#database
    try {
      if (this.#pinned !== undefined) return await this.#takePinned(this.#pinned, request)
      const index = typeof locks === 'object' ? readWalIndex(locks.shm) : undefined
      const resting = this.#resting
      if (resting !== undefined && isSameState(resting.index, index)) {
        return this.#hold(
          lateImage(resting, () => this.#imageOf(resting)),
          request,
        )
      }
      this.#forget()
      if (this.#isSmall(index)) return this.#takeSmall(index, request)
      const pinned = this.#pin()
      return await (pinned instanceof PinnedDatabase ? this.#takePinned(pinned, request) : this.#copy(request, pinned))
    } catch (error) {
      if (!isBusy(error) && !(error instanceof WalMismatchError)) throw error
      this.#context.logger.debug?.({ pluginId, path: place.path, err: error }, 'a database is copied to capture it')
      return this.#copy(request)
    }
  }

  async #takePinned(pinned: PinnedDatabase, request: CaptureRequest): Promise<DatabaseInstant> {
    if (!pinned.isAtNewest) await this.#advance(pinned)
    // Once more: had they gone before the transaction began, it would hold nothing.
    if (!pinned.isLocked) return this.#copy(request, 'lost')
    return this.#hold(pinned.image(), request)
  }

  #takeSmall(before: WalIndex | undefined, request: CaptureRequest): DatabaseInstant {
    const image = serializedImage(this.#database.place)
    const after = this.#files === undefined ? undefined : readWalIndex(this.#files.shm)
    const { pageSize, pageCount } = image
    if (before !== undefined && isSameState(before, after)) this.#resting = { index: before, pageSize, pageCount }
    return this.#hold(image, request)
  }

  /** Through SQLite: nothing is known afterwards of what will change. */
  async #copy({ dir, signal, since }: CaptureRequest, locks?: LockState): Promise<DatabaseInstant> {
    this.#unpin()
    this.#forget()
    const { pluginId, place } = this.#database
    const destPath = join(resolve(dir), pluginId, basename(place.path))
    const inChild = locks === 'lost'
    if (inChild) this.#tellLoss()
    await this.#context.copier.run({ kind: 'foreign', place, destPath, alias: undefined, inChild }, signal)
    return this.#hold(copiedImage(destPath), { dir, signal, since })
  }

  #hold(image: PageImage, { since }: CaptureRequest): DatabaseInstant {
    const { pluginId, place } = this.#database
    const id = this.#log.name(this.#context.newId)
    const changed = this.#log.since(since.get(place.path))
    const all = image.pageCount === 0 ? [] : [{ first: 1, count: image.pageCount }]
    this.#held = new HeldInstant({
      pluginId,
      livePath: place.path,
      id,
      difference:
        changed === undefined
          ? { kind: 'full', changed: all }
          : { kind: changed.length === 0 ? 'nothing' : 'changed', changed },
      image,
      onDistrust: (pages) => this.#distrust(pages),
      onEnd: () => {
        this.#held = undefined
        if (!this.#isClosed && this.#pinned?.isSettled === false) this.#settle()
      },
    })
    return this.#held
  }

  #distrust(pages: readonly PageRange[]): void {
    const { pluginId, place } = this.#database
    const message = 'pages had changed that a capture took for unchanged: the next one reads everything'
    this.#context.logger.error({ pluginId, path: place.path, pages }, message)
    this.#forget()
  }

  #findLocks(): LockState {
    const { path } = this.#database.place
    if (!this.#context.canPin()) return 'none'
    if (this.#files !== undefined && areLocked(this.#files, path)) return this.#files
    // What was pinned is another file, or nothing holds it in place any more.
    this.#unpin()
    this.#forget()
    const found = findLockedFiles(path)
    this.#files = typeof found === 'object' ? found : undefined
    return found
  }

  #pin(): PinnedDatabase | Exclude<LockState, LockedFiles> {
    if (!this.#context.canPin()) return 'none'
    const { path } = this.#database.place
    const pin = new Pin(() => this.#context.connect(this.#database), this.#context.step)
    const found = findLockedFiles(path)
    if (typeof found !== 'object') {
      pin.close()
      return found
    }
    this.#files = found
    this.#pinned = new PinnedDatabase(path, found, pin, this.#context.step)
    return this.#pinned
  }

  #unpin(): void {
    this.#pinned?.close()
    this.#pinned = undefined
    this.#lastSeen = undefined
  }

  #forget(): void {
    this.#log.forget()
    this.#resting = undefined
  }

  /** Lets the pin go, and remembers what it was on: until something is committed, nothing has changed. */
  #rest(): void {
    const pinned = this.#pinned as PinnedDatabase
    const { index, pageSize, pageCount } = pinned
    this.#resting = this.#log.isAtLatest && pinned.isAtNewest ? { index, pageSize, pageCount } : undefined
    this.#unpin()
  }

  async #imageOf({ index }: Resting): Promise<PageImage> {
    const { path } = this.#database.place
    if (this.#isSmall(index)) {
      const image = serializedImage(this.#database.place)
      if (this.#files !== undefined && isSameState(readWalIndex(this.#files.shm), index)) return image
    } else {
      const pinned = this.#pin()
      if (pinned instanceof PinnedDatabase) {
        await inSlices(pinned.advance())
        if (isSameState(pinned.index, index)) return pinned.image()
      }
    }
    const message = `The database at ${path} has moved on since it was captured: capture it again`
    throw new NexusError('UNAVAILABLE', message, { op: 'storage.capture', key: path, retryable: true })
  }

  async #advance(pinned: PinnedDatabase): Promise<void> {
    this.#note(await inSlices(pinned.advance()))
  }

  #note(changed: readonly PageRange[] | undefined): void {
    if (changed === undefined) this.#forget()
    else this.#log.note(changed)
  }

  /** Moves the WAL into the file, and the pin behind it, so that the next writer begins the WAL anew. */
  #settle(): void {
    const { copier, step, logger } = this.#context
    const { pluginId, place } = this.#database
    const moveOn = (): Promise<void> =>
      this.#lock.run(async () => {
        const pinned = this.#pinned
        if (this.#held !== undefined || pinned === undefined || pinned.isSettled) return
        await this.#advance(pinned)
        if (pinned.isSettled || pinned.index.lastFrame - pinned.backfilled > LONG_WAL_FRAMES) return
        if (pinned.index.lastFrame > TOO_LONG_WAL_FRAMES) this.#note(overtakeWriters(place, pinned))
      })
    const work = async (): Promise<void> => {
      await moveOn()
      step('pages:before-checkpoint')
      await copier.run({ kind: 'checkpoint', place, keepWal: true }, undefined)
      step('pages:after-checkpoint')
      await moveOn()
    }
    this.#settling ??= work()
      // The WAL stays longer. What is wrong with it the next capture finds out, and tells.
      .catch((error: unknown) => logger.debug?.({ pluginId, path: place.path, err: error }, 'a WAL is kept'))
      .finally(() => {
        this.#settling = undefined
      })
  }

  // By what it holds, where that is known: a small database may have a long WAL.
  #isSmall(index: WalIndex | undefined): boolean {
    const { path } = this.#database.place
    const sizeBytes =
      index === undefined || index.pageCount === 0
        ? fileSizeBytes(path) + fileSizeBytes(`${path}-wal`)
        : index.pageCount * index.pageSize
    return sizeBytes <= this.#context.smallBytes
  }

  #tellLoss(): void {
    if (this.#isLossTold) return
    this.#isLossTold = true
    const { pluginId, place } = this.#database
    this.#context.logger.warn(
      { pluginId, path: place.path },
      'this process lost its locks on a database, so other processes may overwrite what it commits: something in it opened and ' +
        'closed the file outside SQLite (readFile, a hash, a copy), or a second SQLite library did. A child process copies it ' +
        'whole at every capture until its plugin closes it and opens it again',
    )
  }
}

async function inSlices<T>(work: Generator<void, T>): Promise<T> {
  const slices = new Slices()
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
    await slices.rest()
  }
}
