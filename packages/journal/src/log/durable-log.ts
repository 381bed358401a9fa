import { fromSystemError, isNexusError, NexusError } from '@nexus/errors'
import { AsyncLock, type Clock, type Logger, type TimerHandle, within } from '@nexus/host'
import type { Failpoint } from '../files/failpoints.ts'
import { syncData, writeFully, type JournalFs } from '../files/journal-fs.ts'
import { PendingLines, type WrittenText } from './pending-lines.ts'
import { rewriteUnsynced } from './rewrite-unsynced.ts'

export interface DurableLogOptions {
  dir: string
  path: string
  fs: JournalFs
  clock: Clock
  logger: Logger
  failpoint: Failpoint
  /** False: nothing is ever synced, and "durable" means given to the kernel. */
  syncs: boolean
  /** The line that stands for a record which was dropped because the disk failed for too long. */
  lostLine: (seq: number) => string
  /** Called after lines up to and including `seq` were given to the kernel. */
  onWritten: (seq: number) => void
  /** Called once when the disk begins to fail, not for every retry. */
  onError: (error: NexusError) => void
}

/** Where a replaced file stands. */
export interface FileState {
  fd: number
  sizeBytes: number
  /** Seq of the last line that is known to be on the disk. */
  syncedSeq: number
}

/** Texts are given to the kernel at the latest when this many characters have come together. */
const FLUSH_CHARS = 64 * 1024
/** How long a line may wait in memory, in milliseconds. */
const FLUSH_AFTER_MS = 5
const RETRY_FIRST_MS = 50
const RETRY_MAX_MS = 2000
/** Unsynced bytes kept in memory to survive a failed sync; a sync is started well before. */
const RETAIN_BYTES = 16 * 1024 * 1024
const SYNC_AHEAD_BYTES = 4 * 1024 * 1024
/** How long a grouped sync may take before those who wait for it are told, in milliseconds. */
const GROUP_DEADLINE_MS = 30_000

// utf8 needs at most three bytes per UTF-16 unit. Writes are synchronous, so all logs share one buffer.
let scratch: Buffer | undefined

interface SyncGroup {
  promise: Promise<void>
  inTime?: Promise<void>
  resolve: () => void
  reject: (error: Error) => void
}

/**
 * An append-only file that keeps its promises on a failing disk. Lines go in synchronously and in order of their seq; the
 * kernel gets them in batches; syncs are grouped. A write that fails is cut back to the last whole line and retried. After
 * a failed sync the kernel may have dropped the pages, so nothing more is written to that file: the synced part and the
 * retained lines go to a new one, which takes the name.
 */
export class DurableLog {
  readonly #options: DurableLogOptions
  readonly #fs: JournalFs
  readonly #lock = new AsyncLock()
  readonly #pending: PendingLines
  #fd: number
  #size: number
  #writtenSeq: number
  #syncedSeq: number
  /** Lines in the kernel that are not known to be on the disk, oldest first. */
  #unsynced: WrittenText[] = []
  #unsyncedBytes = 0
  /** The file may hold part of a line behind `#size`. */
  #ragged = false
  #broken: 'write' | 'sync' | undefined
  #error: NexusError | undefined
  #group: SyncGroup | undefined
  #pumping = false
  #flushTimer: TimerHandle | undefined
  #retryTimer: TimerHandle | undefined
  #retryMs = RETRY_FIRST_MS
  #syncFailures = 0
  #closed = false

  constructor(options: DurableLogOptions, fd: number, sizeBytes: number, lastSeq: number) {
    this.#options = options
    this.#fs = options.fs
    this.#fd = fd
    this.#size = sizeBytes
    this.#writtenSeq = lastSeq
    // What an earlier process left may never have been synced: the first barrier does it.
    this.#syncedSeq = sizeBytes === 0 ? lastSeq : -1
    this.#pending = new PendingLines(options.lostLine)
  }

  get fd(): number {
    return this.#fd
  }

  /** Bytes of whole lines in the file. */
  get sizeBytes(): number {
    return this.#size
  }

  /** Seq of the last line that the kernel has. */
  get writtenSeq(): number {
    return this.#writtenSeq
  }

  get syncedSeq(): number {
    return this.#syncedSeq
  }

  /** How often a sync has failed so far. */
  get syncFailures(): number {
    return this.#syncFailures
  }

  /** Why lines can't reach the disk at present. */
  get error(): NexusError | undefined {
    return this.#error
  }

  /** Takes one line, newline included. With `now` it has been given to the kernel on return, unless the disk fails. */
  push(line: string, seq: number, now: boolean): void {
    const chars = this.#pending.add(line, seq, this.#broken !== undefined)
    if (now || chars >= FLUSH_CHARS) this.flush()
    else this.#flushTimer ??= this.#options.clock.setTimeout(this.#onFlushTimer, FLUSH_AFTER_MS)
  }

  readonly #onFlushTimer = (): void => {
    this.#flushTimer = undefined
    this.flush()
  }

  /**
   * Gives everything to the kernel. False when the disk fails; the lines stay in memory and are retried.
   *
   * @param retry also try when the last write failed, instead of leaving it to the timer
   */
  flush(retry = false): boolean {
    if (this.#broken === 'sync' || (this.#broken === 'write' && !retry)) return false
    try {
      for (let text = this.#pending.peek(); text; text = this.#pending.peek()) {
        if (this.#ragged) this.#cutBack()
        this.#write(text)
        this.#pending.shift()
        this.#options.onWritten(text.seq)
      }
    } catch (error) {
      this.#fail('write', error)
      return false
    }
    if (this.#broken === 'write') this.#mended()
    return true
  }

  #write(text: { text: string; seq: number }): void {
    this.#options.failpoint('append:before-write')
    const bytes = this.#encode(text.text)
    // Until the whole text is in, a failure leaves part of a line behind `#size`.
    this.#ragged = true
    writeFully(this.#fs, this.#fd, bytes)
    this.#ragged = false
    this.#size += bytes.length
    this.#writtenSeq = text.seq
    if (this.#options.syncs) this.#retain(text.text, text.seq, bytes.length)
    this.#options.failpoint('append:after-write')
  }

  #encode(text: string): Buffer {
    scratch ??= Buffer.allocUnsafeSlow(4 * FLUSH_CHARS)
    if (text.length * 3 > scratch.length) return Buffer.from(text)
    return scratch.subarray(0, scratch.write(text, 'utf8'))
  }

  #retain(text: string, seq: number, sizeBytes: number): void {
    this.#unsynced.push({ text, seq, sizeBytes })
    this.#unsyncedBytes += sizeBytes
    if (this.#unsyncedBytes < SYNC_AHEAD_BYTES) return
    void this.durable()?.catch(() => undefined)
    // The disk can't keep up. What is let go of here would be read back from the file after a failed sync.
    while (this.#unsyncedBytes > RETAIN_BYTES && this.#unsynced.length > 1) this.#forgetOldest()
  }

  #forgetOldest(): void {
    const oldest = this.#unsynced.shift()
    if (oldest) this.#unsyncedBytes -= oldest.sizeBytes
  }

  #cutBack(): void {
    this.#fs.ftruncateSync(this.#fd, this.#size)
    this.#ragged = false
  }

  /**
   * Resolves when everything pushed so far is durable, however long a failing disk takes; undefined when it is already.
   * All callers between two syncs share one.
   */
  durable(): Promise<void> | undefined {
    return this.#durableGroup()?.promise
  }

  /** Like {@link durable}, but rejects with `UNAVAILABLE` after {@link GROUP_DEADLINE_MS}. */
  durableInTime(): Promise<void> | undefined {
    const group = this.#durableGroup()
    if (!group) return undefined
    group.inTime ??= this.#inTime(group.promise)
    return group.inTime
  }

  #durableGroup(): SyncGroup | undefined {
    if (this.#pending.empty && !this.#broken && (!this.#options.syncs || this.#syncedSeq === this.#writtenSeq)) {
      return undefined
    }
    return (this.#group ??= this.#newGroup())
  }

  #newGroup(): SyncGroup {
    const group = {} as SyncGroup
    group.promise = new Promise((resolve, reject) => Object.assign(group, { resolve, reject }))
    // A group that is no longer awaited must not end the process when it fails.
    group.promise.catch(() => undefined)
    // One turn of the loop later, so that everyone who was woken by the same sync gets into the same next one.
    setImmediate(() => void this.#pump())
    return group
  }

  #inTime(promise: Promise<void>): Promise<void> {
    const { clock } = this.#options
    const bounded = within(promise, {
      clock,
      deadlineMs: GROUP_DEADLINE_MS,
      signal: undefined,
      late: () => this.lateError(),
    })
    bounded.catch(() => undefined)
    return bounded
  }

  /** What those are told who waited too long. */
  lateError(): NexusError {
    return new NexusError('UNAVAILABLE', `${this.#options.path} could not be made durable in time`, {
      op: 'journal.barrier',
      key: this.#options.path,
      cause: this.#error,
    })
  }

  async #pump(): Promise<void> {
    if (this.#pumping) return
    this.#pumping = true
    while (this.#group && this.flush(true)) {
      const group = this.#group
      this.#group = undefined
      if (await this.#lock.run(() => this.#sync())) group.resolve()
      else this.#regroup(group)
    }
    this.#pumping = false
  }

  /** Puts a group whose sync failed back, together with the one that formed meanwhile. */
  #regroup(group: SyncGroup): void {
    const newer = this.#group
    if (newer) group.promise.then(newer.resolve, newer.reject)
    this.#group = group
  }

  async #sync(): Promise<boolean> {
    if (!this.#options.syncs) return true
    const [fd, seq] = [this.#fd, this.#writtenSeq]
    try {
      this.#options.failpoint('sync:before')
      await syncData(this.#fs, fd)
      this.#options.failpoint('sync:after')
    } catch (error) {
      this.#fail('sync', error)
      return false
    }
    this.#noteSynced(seq)
    return true
  }

  #noteSynced(seq: number): void {
    this.#syncedSeq = seq
    const keep = this.#unsynced.findIndex((text) => text.seq > seq)
    const gone = this.#unsynced.splice(0, keep === -1 ? this.#unsynced.length : keep)
    for (const text of gone) this.#unsyncedBytes -= text.sizeBytes
  }

  /** Runs `work` while no sync and no replacement of the file is going on. Appends go on. */
  exclusive<T>(work: () => Promise<T>): Promise<T> {
    return this.#lock.run(work)
  }

  /** Goes on in another file. Only inside {@link exclusive}, and in the same tick that put the file in place. */
  replaceFile(state: FileState): void {
    this.#fd = state.fd
    this.#size = state.sizeBytes
    this.#ragged = false
    this.#noteSynced(state.syncedSeq)
  }

  /** Treats the file as one whose sync failed: its lines are written to a new one before anything else. */
  distrust(error: unknown): void {
    this.#fail('sync', error)
  }

  #fail(what: 'write' | 'sync', error: unknown): void {
    if (what === 'sync') this.#syncFailures++
    const first = this.#broken === undefined
    const op = what === 'write' ? 'journal.append' : 'journal.sync'
    this.#broken = what
    this.#error = isNexusError(error) ? error : fromSystemError(error, op, this.#options.path)
    this.#scheduleRetry()
    if (!first) return
    this.#options.logger.error({ err: this.#error, path: this.#options.path }, 'the journal cannot be written')
    this.#options.onError(this.#error)
  }

  #scheduleRetry(): void {
    if (this.#closed) return
    this.#retryTimer ??= this.#options.clock.setTimeout(this.#retry, this.#retryMs)
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MAX_MS)
  }

  readonly #retry = (): void => {
    this.#retryTimer = undefined
    if (this.#broken === 'sync') void this.#replaceUnsynced()
    else if (this.flush(true)) void this.#pump()
  }

  async #replaceUnsynced(): Promise<void> {
    try {
      await this.#lock.run(async () => {
        const state = await rewriteUnsynced({
          ...this.#options,
          fd: this.#fd,
          keepBytes: this.#size - this.#unsyncedBytes,
          texts: this.#unsynced,
          lastSeq: this.#writtenSeq,
        })
        const old = this.#fd
        this.replaceFile(state)
        this.#fs.closeSync(old)
      })
    } catch (error) {
      this.#fail('sync', error)
      return
    }
    this.#mended()
    if (this.flush(true)) void this.#pump()
  }

  #mended(): void {
    this.#broken = undefined
    this.#error = undefined
    this.#retryMs = RETRY_FIRST_MS
    this.#options.logger.info({ path: this.#options.path }, 'the journal is written again')
  }

  /** Ends timers and closes the file. What is still in memory is lost; callers wait for {@link durable} first. */
  close(): Promise<void> {
    this.#closed = true
    const { clock } = this.#options
    if (this.#flushTimer) clock.clearTimeout(this.#flushTimer)
    if (this.#retryTimer) clock.clearTimeout(this.#retryTimer)
    this.#group?.reject(this.lateError())
    return this.#lock.run(async () => this.#fs.closeSync(this.#fd))
  }
}
