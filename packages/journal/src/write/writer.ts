import { dirname, resolve } from 'node:path'
import { fromSystemError, isNexusError, NexusError, systemCode } from '@nexus/errors'
import { type Clock, silentLogger, systemClock, within, noFailpoint } from '@nexus/host'
import { DurableLog } from '../log/durable-log.ts'
import { finishRewind } from '../rewind/finish-rewind.ts'
import {
  ACTIVE_SEGMENT,
  ARCHIVE_DIR,
  CACHE_DIR,
  FORCED_ROTATION_BYTES,
  SCHEMA_VERSION,
  TEMP_PREFIX,
} from '../format/format.ts'
import { DamageLog, type JournalDamage } from '../format/damage.ts'
import { HeldDirectory, holdDirectory } from '../files/held-directory.ts'
import { claimJournal } from '../files/open-journals.ts'
import { readHeader, writeHeader } from '../format/header.ts'
import { highestSegmentNumber, listNames, sealedFiles } from '../format/journal-files.ts'
import { nodeFs, syncDir, type JournalFs } from '../files/journal-fs.ts'
import { openActive, type OpenedActive } from './open-active.ts'
import type { ProjectionHandler } from '../read/project-file.ts'
import { Projections } from './projections.ts'
import { encodeRecord, type JournalRecord } from '../format/record.ts'
import { rotate } from './rotation.ts'
import { snapshotJournal, type JournalSnapshot } from './snapshot-journal.ts'
import { validateOptions, type JournalWriterOptions } from './writer-options.ts'

type Resolved = Required<Omit<JournalWriterOptions, 'initialSeq' | 'committedSegment'>>

/** How long to wait. */
export interface WaitOptions {
  signal?: AbortSignal | undefined
  /** In milliseconds; default {@link BARRIER_DEADLINE_MS}. */
  deadlineMs?: number
}

/** How long a barrier waits for a failing disk when nothing else is said, in milliseconds. */
export const BARRIER_DEADLINE_MS: number = 30_000

/**
 * Appends events to the journal of one session. One process at a time: the caller holds the session's lock. A second
 * writer in the same process is refused.
 *
 * @see docs/concepts/journal.md
 */
export class JournalWriter {
  /** What was found wrong with the end of the journal when it was opened; the first thousand faults. */
  readonly damage: readonly JournalDamage[]
  readonly #options: Resolved
  readonly #dir: string
  readonly #log: DurableLog
  readonly #projections: Projections
  #lastSeq: number
  #highestSegment: number
  #rotation: Promise<void> | undefined
  /** Snapshots that keep rotations away at present. */
  #holds = 0
  #rotationOwed = false
  /** Keeps a long turn from trying again and again. */
  #rotationFailed = false
  #closing: Promise<void> | undefined
  readonly #release: () => void
  readonly #held: HeldDirectory | undefined

  private constructor(
    dir: string,
    options: Resolved,
    state: OpenedActive & {
      highestSegment: number
      damage: DamageLog
      release: () => void
      held?: HeldDirectory | undefined
    },
  ) {
    this.damage = state.damage.entries
    this.#dir = dir
    this.#options = options
    this.#release = state.release
    this.#held = state.held
    this.#lastSeq = state.lastSeq
    this.#highestSegment = state.highestSegment
    this.#projections = new Projections(options.logger)
    const log = {
      ...options,
      dir,
      path: `${dir}/${ACTIVE_SEGMENT}`,
      syncs: options.fsync !== 'none',
      lostLine: (seq: number) => this.#lostLine(seq),
      onWritten: (seq: number) => this.#onWritten(seq),
    }
    this.#log = new DurableLog(log, state.fd, state.sizeBytes, state.lastSeq)
  }

  /**
   * Opens the journal in `dir`, creating both when they are missing. Mends what a crash left: a torn last line is kept
   * aside as `torn-<time>.part`, leftovers of an interrupted rotation are removed. What was wrong is in {@link damage}.
   *
   * @throws `INVALID_ARGUMENT` for a bad option, `LOCKED` while this process has the journal open already, `UNSUPPORTED` for another schema version, `CORRUPT` for an unreadable
   * header, `LOCAL_IO`, `PERMISSION`
   */
  static async open(dir: string, options: JournalWriterOptions): Promise<JournalWriter> {
    validateOptions(options)
    const { clock = systemClock, logger = silentLogger, failpoint = noFailpoint } = options
    let held: HeldDirectory | undefined
    let release: (() => void) | undefined
    try {
      await makeDir(options.fs ?? nodeFs, dir)
      if (!options.fs) held = new HeldDirectory(dir)
      const fs = options.fs ?? held?.fs ?? nodeFs
      const full = { onError: () => undefined, ...options, fs, clock, logger, failpoint }
      release = claimJournal(options.fs ?? nodeFs, dir, 'journal.open')
      await finishRewind(dir, fs, failpoint)
      const names = removeLeftovers(fs, dir)
      if (!readHeader(dir, fs)) {
        writeHeader(dir, newHeader(options, clock), fs)
        failpoint('open:header-written')
      }
      const sealed = sealedFiles(dir, names)
      const highestSegment = Math.max(highestSegmentNumber(dir, fs), options.committedSegment ?? 0)
      await syncNames(fs, dir)
      const damage = new DamageLog()
      const active = await openActive(dir, sealed, { ...full, damage })
      const lastSeq = Math.max(active.lastSeq, (options.initialSeq ?? 1) - 1)
      if (damage.total > 0)
        logger.warn({ dir, damage: damage.entries.slice(0, 10), faults: damage.total }, 'the journal is damaged')
      return new JournalWriter(dir, full, { ...active, lastSeq, highestSegment, damage, release, held })
    } catch (error) {
      release?.()
      held?.close()
      throw isNexusError(error) ? error : fromSystemError(error, 'journal.open', dir)
    }
  }

  /** Seq of the newest event; 0 before the first. */
  get lastSeq(): number {
    return this.#lastSeq
  }

  /** Why events can't be written at present; undefined while all is well. No new input should be taken meanwhile. */
  get behind(): NexusError | undefined {
    return this.#log.error
  }

  /**
   * Takes one event and returns its seq. Never throws and never waits: on a failing disk the event stays in memory,
   * within limits. After {@link close} nothing is taken and the result is 0.
   *
   * @param options.writeThrough the kernel has the line on return, so that it survives the death of the process
   */
  append(record: JournalRecord, options?: { writeThrough?: boolean }): number {
    if (this.#closing) return 0
    const seq = ++this.#lastSeq
    const line = encodeRecord(seq, record)
    this.#projections.note(seq, line)
    this.#log.push(line, seq, options?.writeThrough === true)
    return seq
  }

  #lostLine(seq: number): string {
    return encodeRecord(seq, {
      ts: new Date(this.#options.clock.now()).toISOString(),
      type: 'journal.lost',
      event_id: `lost-${seq}`,
      source: 'journal',
      session_id: this.#options.sessionId,
      depth: 0,
      payload: { __journal_error: 'the disk failed for so long that this event was dropped from memory' },
    })
  }

  #onWritten(seq: number): void {
    this.#projections.deliver(seq)
    if (this.#log.sizeBytes >= FORCED_ROTATION_BYTES && !this.#rotationFailed) this.#startRotation()
  }

  /**
   * Under `every-event`: settles when everything appended so far is on the disk; all who wait share one sync. Undefined
   * when there is nothing to wait for, and under the other policies.
   */
  committed(): Promise<void> | undefined {
    return this.#options.fsync === 'every-event' ? this.#log.durableInTime() : undefined
  }

  /**
   * Resolves when everything appended so far has been written and, unless the policy is `none`, synced.
   *
   * @throws `UNAVAILABLE` with the disk's error as cause when that takes longer than the deadline, `CLOSED`, or the
   * signal's reason
   */
  async barrier(options: WaitOptions = {}): Promise<void> {
    this.#assertOpen('journal.barrier')
    options.signal?.throwIfAborted()
    await this.#settle(options)
  }

  async #settle(options: WaitOptions): Promise<void> {
    this.#log.flush(true)
    const durable = this.#log.durable()
    if (durable) await this.#within(durable, options)
  }

  /** Every wait has a limit, whatever the disk does. */
  #within<T>(promise: Promise<T>, { signal, deadlineMs = BARRIER_DEADLINE_MS }: WaitOptions): Promise<T> {
    return within(promise, { clock: this.#options.clock, deadlineMs, signal, late: () => this.#log.lateError() })
  }

  /**
   * The barrier at the end of a turn. When the active segment has become large enough, a rotation begins in the
   * background; {@link snapshot}, {@link close} and the end of the next turn wait for it, so that turns which follow each
   * other faster than they can be compressed do not pile up in one segment.
   */
  async turnEnded(options: WaitOptions = {}): Promise<void> {
    await this.barrier(options)
    // The turn is durable: that a rotation takes too long is no failure of it.
    if (this.#rotation) await this.#within(this.#rotation, options).catch(() => undefined)
    this.#rotateWhenDue()
  }

  #rotateWhenDue(): void {
    if (this.#log.sizeBytes >= this.#options.rotateBytes) this.#startRotation()
  }

  #startRotation(): void {
    if (this.#closing) return
    if (this.#rotation || this.#holds > 0) {
      this.#rotationOwed = true
      return
    }
    this.#rotationOwed = false
    this.#rotation = this.#rotate().finally(() => {
      this.#rotation = undefined
      this.#startOwedRotation()
    })
  }

  #startOwedRotation(): void {
    if (this.#rotationOwed && this.#holds === 0) this.#rotateWhenDue()
  }

  async #rotate(): Promise<void> {
    const { fs, failpoint, logger } = this.#options
    // Counted even when the rotation fails half way: a number is never tried twice.
    const number = ++this.#highestSegment
    try {
      const sealed = await rotate({ fs, dir: this.#dir, log: this.#log, number, failpoint })
      this.#rotationFailed = false
      if (sealed) logger.debug({ dir: this.#dir, ...sealed }, 'sealed a journal segment')
    } catch (error) {
      this.#rotationFailed = true
      this.#rotationOwed = false
      logger.warn({ err: error, dir: this.#dir }, 'the journal could not be rotated; the next turn tries again')
    }
  }

  /** A manifest that names sealed segment `number` was committed; later ones are numbered above it. */
  noteCommittedSegment(number: number): void {
    this.#highestSegment = Math.max(this.#highestSegment, number)
  }

  /**
   * The journal at one instant that covers everything appended before the call: header and sealed segments are named in
   * place, the active segment is copied to `destDir`, which exists. Appends go on meanwhile. An active segment that has
   * become large enough is sealed first, so that a session without turns rotates as well, and a commit stores its lines
   * once. Also works after {@link close}, on what was written until then.
   *
   * @throws what {@link barrier} throws; `LOCAL_IO` when the copy fails
   */
  async snapshot(destDir: string, options: { signal?: AbortSignal | undefined } = {}): Promise<JournalSnapshot> {
    const { failpoint } = this.#options
    let held: ReturnType<typeof holdDirectory> | undefined
    if (!this.#closing) {
      await this.#settle(options)
      if (!this.#rotation) this.#rotateWhenDue()
    }
    this.#holds++
    try {
      if (this.#rotation) await this.#within(this.#rotation, options)
      if (this.#closing) await this.#closing.catch(() => undefined)
      else await this.#settle(options)
      // The sealed segments are named by their paths, which must lead to what was written.
      if (!this.#closing) this.#held?.assertInPlace('journal.snapshot')
      else if (this.#held) held = holdDirectory(this.#dir, undefined)
      const fs = held?.fs ?? this.#options.fs
      return await snapshotJournal({
        fs,
        failpoint,
        dir: this.#dir,
        destDir,
        log: this.#log,
        isClosed: this.#closing !== undefined,
        signal: options.signal,
      })
    } catch (error) {
      if (isNexusError(error) || options.signal?.aborted) throw error
      throw fromSystemError(error, 'journal.snapshot', destDir)
    } finally {
      held?.close()
      this.#holds--
      this.#startOwedRotation()
    }
  }

  /**
   * Calls `handler` for every event of these types from now on, after its line was written, in order. A handler that
   * throws is logged and harms nothing.
   */
  subscribeProjection(types: Iterable<string>, handler: ProjectionHandler): () => void {
    return this.#projections.subscribe(types, handler)
  }

  /**
   * Writes and syncs what is left, waits for a running rotation and closes the file. Idempotent.
   *
   * @throws what {@link barrier} throws; the file is closed nevertheless
   */
  close(options: WaitOptions = {}): Promise<void> {
    this.#closing ??= this.#close(options)
    return this.#closing
  }

  /** Takes nothing more, and gives everything back without writing what is left: as a killed process would. Idempotent. */
  abandon(): Promise<void> {
    this.#closing ??= this.#closeFile()
    return this.#closing
  }

  async #close(options: WaitOptions): Promise<void> {
    try {
      await this.#settle(options)
    } finally {
      await this.#within(this.#closeFile(), options)
    }
  }

  async #closeFile(): Promise<void> {
    while (this.#rotation) await this.#rotation
    try {
      await this.#log.close()
    } catch (error) {
      throw fromSystemError(error, 'journal.close', this.#dir)
    } finally {
      this.#release()
      this.#held?.close()
    }
  }

  #assertOpen(op: string): void {
    if (this.#closing) throw new NexusError('CLOSED', `the journal in ${this.#dir} is closed`, { op, key: this.#dir })
  }
}

function newHeader(options: JournalWriterOptions, clock: Clock): Parameters<typeof writeHeader>[1] {
  return {
    schema_version: SCHEMA_VERSION,
    created_at: new Date(clock.now()).toISOString(),
    fsync_mode: options.fsync,
    session_id: options.sessionId,
  }
}

/** Creates the directory and those above it that are missing, durably. */
async function makeDir(fs: JournalFs, dir: string): Promise<void> {
  const created = fs.mkdirSync(dir, { recursive: true, mode: 0o700 })
  if (created === undefined) return
  const first = resolve(created)
  for (let path = resolve(dir); path.length >= first.length; path = dirname(path)) await syncDir(fs, dirname(path))
}

/**
 * An event can't be durable before the names of its file and directory are. Also when they were there: a process that
 * died right after it made them may not have come to this.
 */
async function syncNames(fs: JournalFs, dir: string): Promise<void> {
  await syncDir(fs, dir)
  try {
    await syncDir(fs, dirname(resolve(dir)))
  } catch (error) {
    // A parent that may not be opened is not ours, and was there before us.
    if (!['EACCES', 'EPERM'].includes(systemCode(error) ?? '')) throw error
  }
}

/** Removes unfinished files of earlier writers, rewinds and tool caches; returns the names in `dir` that stay. */
function removeLeftovers(fs: JournalFs, dir: string): string[] {
  for (const name of [CACHE_DIR, ARCHIVE_DIR]) removeTemps(fs, `${dir}/${name}`)
  return removeTemps(fs, dir)
}

function removeTemps(fs: JournalFs, dir: string): string[] {
  return listNames(fs, dir).filter((name) => {
    if (!name.startsWith(TEMP_PREFIX)) return true
    fs.rmSync(`${dir}/${name}`, { recursive: true, force: true })
    return false
  })
}
