import { join } from 'node:path'
import { isNexusError } from '@nexus/errors'
import type { ObjectStore } from '@nexus/objectstore'
import { type Clock, isRunning, type Logger, type TimerHandle } from '@nexus/host'
import { sessionKeys, type SessionKeys } from '../tree/keys.ts'
import { noteAbandoned, wasAbandoned } from './abandoned.ts'
import {
  judgeOwner,
  OWNER_MARKER_LIMIT_BYTES,
  parseOwnerMarker,
  serializeOwnerMarker,
  type OwnerIdentity,
  type OwnerKnowledge,
  type OwnerMarker,
  type OwnerVerdict,
} from './owner-marker.ts'
import { readObject, writeObject } from '../tree/small-object.ts'

/** What {@link SessionOwner} needs. */
export interface SessionOwnerOptions {
  store: ObjectStore
  sessionId: string
  sessionsRoot: string
  identity: OwnerIdentity
  clock: Clock
  logger: Logger
  heartbeatMs: number
  staleMs: number
  /** Makes sure that no other host has committed before a heartbeat claims the session anew; rejects when it can't be had. */
  confirm: (signal: AbortSignal) => Promise<void>
  /** Called once a run, when another instance looks alive. */
  onConflict: (holder: OwnerMarker) => void
  /** Whether a process with this pid exists on this host, and this worker thread of it. */
  isRunning?: OwnerKnowledge['isRunning']
}

/**
 * This run's claim on the session in the store: read, then written, renewed by a heartbeat, removed at the end while it
 * is still ours.
 *
 * Nothing here ever fails a boot or a turn: a marker that can't be read or written is logged. When another instance's
 * marker looks alive, boot claims over it (the last to boot holds the marker) while a heartbeat leaves it alone, so both
 * sides see the other.
 */
export class SessionOwner {
  readonly #options: SessionOwnerOptions
  readonly #isRunning: OwnerKnowledge['isRunning']
  readonly #keys: SessionKeys
  readonly #scratchPath: string
  readonly #stop = new AbortController()
  #claimedAt: string | undefined
  #reported = false
  #timer: TimerHandle | undefined
  #beating: Promise<void> | undefined
  #verdict: OwnerVerdict | undefined

  constructor(options: SessionOwnerOptions) {
    this.#options = options
    this.#isRunning = options.isRunning ?? isRunning
    this.#keys = sessionKeys(options.sessionId)
    this.#scratchPath = join(options.sessionsRoot, '.machine', `${options.sessionId}.owner`)
  }

  /** What the last look at the marker said; undefined before one succeeded. */
  get verdict(): OwnerVerdict | undefined {
    return this.#verdict
  }

  /** Reads the marker, judges it and writes ours. Failures are logged: the next heartbeat tries again. */
  async claim(signal?: AbortSignal): Promise<void> {
    await this.#beat('claim', signal === undefined ? this.#stop.signal : AbortSignal.any([signal, this.#stop.signal]))
  }

  /** Starts the heartbeat. Its timer never keeps the process alive. */
  start(): void {
    this.#schedule()
  }

  /** Ends the heartbeat and waits for one that is on its way, which is aborted. */
  async stop(): Promise<void> {
    if (this.#timer !== undefined) this.#options.clock.clearTimeout(this.#timer)
    this.#timer = undefined
    this.#stop.abort(new DOMException('the run ends', 'AbortError'))
    await this.#beating
  }

  /** The run is dropped and its marker left: this process knows from now on that no run is behind it. */
  leave(): void {
    noteAbandoned(this.#options.identity.instanceId)
  }

  /** Removes the marker if it is still ours. Failures are logged. */
  async release(signal?: AbortSignal): Promise<void> {
    const { store, logger, sessionId } = this.#options
    if (this.#claimedAt === undefined) return
    try {
      const holder = await this.#read(signal)
      if (holder?.instanceId !== this.#options.identity.instanceId) return
      await store.delete(this.#keys.owner, { signal })
    } catch (error) {
      logger.warn(
        { err: error, session_id: sessionId },
        'the owner marker was not removed; the next boot will judge it by its age',
      )
    }
  }

  #schedule(): void {
    const { clock, heartbeatMs } = this.#options
    if (this.#stop.signal.aborted) return
    this.#timer = clock.setTimeout(() => {
      this.#timer = undefined
      this.#beating = this.#beat('heartbeat', this.#stop.signal).finally(() => {
        this.#beating = undefined
        this.#schedule()
      })
    }, heartbeatMs)
    this.#timer.unref()
  }

  /** Never rejects. A heartbeat before any claim succeeded is the claim. */
  async #beat(how: 'claim' | 'heartbeat', signal: AbortSignal): Promise<void> {
    const { clock, logger, sessionId, staleMs, identity } = this.#options
    try {
      const holder = await this.#readLeniently(signal)
      this.#verdict = judgeOwner(holder, identity, {
        nowMs: clock.now(),
        staleMs,
        isRunning: this.#isRunning,
        wasAbandoned,
      })
      if (this.#verdict === 'conflict' && holder !== undefined) this.#report(holder)
      if (this.#verdict === 'takeover') {
        logger.info(
          { session_id: sessionId, holder_host: holder?.host, holder_heartbeat_at: holder?.heartbeatAt },
          'took over a session whose holder stopped beating',
        )
      }
      const yields = this.#verdict === 'conflict' && how === 'heartbeat' && this.#claimedAt !== undefined
      if (how === 'heartbeat') await this.#options.confirm(signal)
      if (!yields) await this.#write(signal)
    } catch (error) {
      if (signal.aborted) return
      logger.warn({ err: error, session_id: sessionId }, `the owner marker could not be renewed (${how}); trying again`)
    }
  }

  async #write(signal: AbortSignal): Promise<void> {
    const { store, clock, identity, sessionId } = this.#options
    const nowAt = new Date(clock.now()).toISOString()
    const claimedAt = this.#claimedAt ?? nowAt
    const { host, pid, thread, instanceId } = identity
    const marker = { sessionId, host, pid, thread, instanceId, claimedAt, heartbeatAt: nowAt }
    // Before the put: one whose answer is lost may have landed, and has to be removed at the end.
    this.#claimedAt = claimedAt
    const scratchPath = this.#scratchPath
    await writeObject(store, this.#keys.owner, serializeOwnerMarker(marker, this.#keys.tree), { scratchPath, signal })
  }

  async #read(signal?: AbortSignal): Promise<OwnerMarker | undefined> {
    const scratchPath = this.#scratchPath
    const length = OWNER_MARKER_LIMIT_BYTES
    const bytes = await readObject(this.#options.store, this.#keys.owner, { scratchPath, length, signal })
    return bytes === undefined ? undefined : parseOwnerMarker(bytes)
  }

  /**
   * A marker that can't be understood, or that we may not read, counts as none and is replaced by a good one. A store that
   * doesn't answer wouldn't take ours either.
   */
  async #readLeniently(signal: AbortSignal): Promise<OwnerMarker | undefined> {
    try {
      return await this.#read(signal)
    } catch (error) {
      if (signal.aborted || (isNexusError(error) && error.retryable)) throw error
      this.#options.logger.warn({ err: error, session_id: this.#options.sessionId }, 'the owner marker can not be read')
      return undefined
    }
  }

  #report(holder: OwnerMarker): void {
    if (this.#reported) return
    this.#reported = true
    this.#options.logger.error(
      {
        session_id: this.#options.sessionId,
        holder_host: holder.host,
        holder_pid: holder.pid,
        holder_instance_id: holder.instanceId,
        holder_heartbeat_at: holder.heartbeatAt,
      },
      'another instance seems to hold this session',
    )
    this.#options.onConflict(holder)
  }
}
