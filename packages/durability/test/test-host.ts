import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { JournalWriter } from '@nexus/journal'
import type { Capability, MemoryBackend } from '@nexus/objectstore-memory-test'
import { openStorageManager, type StorageManager } from '@nexus/storage'
import { EventBus } from '../../engine/src/bus/event-bus.ts'
import { openSessionDurability, type SessionDurability } from '../src/session-durability.ts'
import type { SessionDurabilityOptions } from '../src/run-context.ts'
import type { SessionTree } from '../src/session-boot.ts'
import { joinDurability, tellOn } from '../../engine/src/lifecycle/boot/join-durability.ts'
import { JournalRecorder } from '../../engine/src/event-recorder.ts'
import { keepingLogger, type LoggedLine, type ManualClock } from '@nexus/host/testing'
import { newDir, newStore, type TestStore } from './memory-store.ts'

/** What a host boots with; everything else is as the product has it. */
export interface HostOptions extends Partial<SessionDurabilityOptions> {
  /** The bucket. Default: a new one. */
  backend?: MemoryBackend
  clock?: ManualClock
  /** The host's disk: a second run on it finds what the first left. Default: a new, empty one. */
  disk?: string
  /** Optional capabilities that the backend shall not have. */
  absent?: readonly Capability[]
  rotateBytes?: number
  /** A session that was generated just now. */
  fresh?: boolean
  /** A session that was removed begins anew. */
  beginAgain?: boolean
}

/** An event as it went over the bus. */
export interface SeenEvent {
  type: string
  payload: Record<string, unknown>
}

let instances = 0

/** One run of one session on one host: bus, journal, databases and durability, wired as the engine does it. */
export class TestHost {
  readonly disk: string
  readonly test: TestStore
  readonly bus: EventBus
  readonly events: SeenEvent[] = []
  readonly lines: LoggedLine[]
  readonly durability: SessionDurability
  resolution: SessionTree | undefined
  journal!: JournalWriter
  storage!: StorageManager
  /** The process is gone: what it still had to do never happens. */
  isDead = false
  readonly #options: HostOptions

  constructor(options: HostOptions = {}) {
    this.#options = options
    this.disk = options.disk ?? newDir('host')
    this.test = newStore({
      ...(options.backend === undefined ? {} : { of: options.backend }),
      ...(options.clock === undefined ? {} : { clock: options.clock }),
      ...(options.absent === undefined ? {} : { absent: options.absent }),
    })
    const logger = keepingLogger()
    this.lines = logger.lines
    const { clock } = this.test
    this.bus = new EventBus({ sessionId: 's1', clock, logger })
    this.durability = openSessionDurability({
      backendName: 'memory-test',
      storeId: 'memory-test:bucket',
      sessionId: 's1',
      sessionsRoot: join(this.disk, 'sessions'),
      storageRoot: join(this.disk, 'storage'),
      policy: 'degrade',
      staleLocal: 'set-aside',
      onLost: 'stop',
      onMixed: 'warn',
      instanceId: `instance-${++instances}`,
      host: `host-of-${this.disk}`,
      pid: process.pid,
      bootId: 'boot-1',
      random: () => 0,
      logger,
      ...options,
      store: this.test.store,
      clock,
    })
  }

  /** A host that is up. */
  static async boot(options: HostOptions = {}): Promise<TestHost> {
    const host = new TestHost(options)
    await host.boot()
    return host
  }

  get dir(): string {
    return join(this.disk, 'sessions', 's1')
  }

  get backend(): MemoryBackend {
    return this.test.backend
  }

  get clock(): ManualClock {
    return this.test.clock
  }

  async boot(): Promise<void> {
    const { durability, bus, dir } = this
    await durability.shared.hydrate()
    mkdirSync(dirname(dir), { recursive: true })
    this.resolution = await durability.resolveTree({
      localExists: existsSync(dir),
      prepareStaging: (staging) => Promise.resolve(writeFileSync(join(staging, 'session.lock'), '{}')),
      createTree: async () => mkdirSync(dir, { mode: 0o700 }),
      ...(this.#options.fresh === undefined ? {} : { fresh: this.#options.fresh }),
      ...(this.#options.beginAgain === undefined ? {} : { beginAgain: this.#options.beginAgain }),
    })
    await durability.claimOwner()
    if (this.isDead) throw new Error('the process died')
    this.storage = openStorageManager({
      sessionDir: dir,
      storageRoot: join(this.disk, 'storage'),
      agentId: this.#options.agentId,
      beforeOpen: (scope, pluginId, path) => durability.shared.guard(scope, pluginId, path),
    })
    const { committedSegment } = durability
    this.journal = await JournalWriter.open(join(dir, 'journal'), {
      fsync: 'turn-boundary',
      rotateBytes: this.#options.rotateBytes ?? 4 * 1024 * 1024,
      sessionId: 's1',
      ...(committedSegment === undefined ? {} : { committedSegment }),
    })
    bus.setRecorder(new JournalRecorder(this.journal, { fsync: 'turn-boundary', excludeEvents: [] }))
    bus.subscribeAll(
      ({ type, payload }) => void this.events.push({ type, payload: payload as Record<string, unknown> }),
    )
    durability.attach({ tell: tellOn(bus), journal: this.journal, storage: this.storage })
    joinDurability(bus, durability)
    await durability.raiseDeferred()
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.dir, path)), { recursive: true, mode: 0o700 })
    writeFileSync(join(this.dir, path), text, { mode: 0o600 })
  }

  /** Gate and input, as `submitInput` does it. */
  async input(content = 'hello'): Promise<{ vetoed: boolean; reason?: string }> {
    const outcome = await this.bus.emitVetoable('before:io.input', { content, session_id: 's1' })
    if (!outcome.vetoed) await this.bus.emit('io.input', { content, session_id: 's1' })
    return outcome
  }

  /** One turn; resolves when its boundary snapshot is over, well or not. */
  async turn(turnId: string, work: () => unknown = () => this.write('files/turn.txt', turnId)): Promise<void> {
    await this.bus.emit('agent.turn.start', { turn_id: turnId, session_id: 's1' })
    await work()
    await this.bus.emit('agent.turn.end', { turn_id: turnId, session_id: 's1' })
  }

  /** A clean end, in the order of the engine. */
  async stop(timeoutMs?: number): Promise<void> {
    await this.durability.detachInputs()
    await this.journal.close()
    await this.storage.closeAll()
    try {
      await this.durability.finish({ clean: true, ...(timeoutMs === undefined ? {} : { timeoutMs }) })
    } finally {
      this.bus.close()
      await this.storage.dispose()
    }
  }

  /** The process dies, as far as the store can tell; what it holds locally is let go without writing. */
  async kill(): Promise<void> {
    await this.durability.abandon()
    this.bus.close()
    await this.journal.close()
    await this.storage.closeAll()
    await this.storage.dispose()
  }

  seen(type: string): Record<string, unknown>[] {
    return this.events.filter((event) => event.type === type).map(({ payload }) => payload)
  }

  logged(level: string): string[] {
    return this.lines.filter((line) => line.level === level).map(({ message }) => message)
  }
}

/** Everything of a tree that a resume must give back: kind, mode, and content, by path. */
export function fingerprint(dir: string, leaveOut: (path: string) => boolean = () => false): Record<string, string> {
  const found: Record<string, string> = {}
  const visit = (at: string): void => {
    for (const entry of readdirSync(join(dir, at), { withFileTypes: true })) {
      const path = at === '' ? entry.name : `${at}/${entry.name}`
      if (path === 'session.lock' || /-(?:wal|shm|journal)$/.test(path) || leaveOut(path)) continue
      const absolute = join(dir, path)
      if (entry.isSymbolicLink()) found[path] = `link ${readlinkSync(absolute)}`
      else if (entry.isDirectory()) visit(path)
      else found[path] = `${(statSync(absolute).mode & 0o777).toString(8)} ${readFileSync(absolute, 'base64')}`
    }
  }
  visit('')
  return found
}
