import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { JournalWriter } from '@nexus/journal'
import { ObjectStore, type ByteRange } from '@nexus/objectstore'
import { openStorageManager, type StorageManager } from '@nexus/storage'
import { EventBus } from '../../engine/src/bus/event-bus.ts'
import { type Failpoint, silentLogger, systemClock } from '@nexus/host'
import type { SessionTree } from '../src/session-boot.ts'
import { openSessionDurability, type SessionDurability } from '../src/session-durability.ts'
import { joinDurability, tellOn } from '../../engine/src/lifecycle/boot/join-durability.ts'
import { JournalRecorder } from '../../engine/src/event-recorder.ts'
import { DirectoryBackend } from './directory-backend.ts'
import type { LayoutName } from './layout-of.ts'

/** The head of an object is all that a check at every turn reads. */
class RangedDirectory extends DirectoryBackend {
  override async get(key: string, localPath: string, { offset = 0, length }: ByteRange = {}): Promise<void> {
    await super.get(key, localPath)
    const bytes = readFileSync(localPath)
    writeFileSync(localPath, bytes.subarray(offset, length === undefined ? undefined : offset + length))
  }
}

export interface CrashRunOptions {
  disk: string
  bucket: string
  failpoint?: Failpoint
  layoutName?: LayoutName
}

/** One run of one session over a bucket that outlives the process, on real time. Used on both sides of a kill. */
export interface CrashRun {
  dir: string
  durability: SessionDurability
  storage: StorageManager
  resolution: SessionTree
  /** Lines of the conversation. */
  turns(): string[]
  turn(id: string, work?: () => void): Promise<void>
  /** As if the process were gone. */
  abandon(): Promise<void>
  stop(): Promise<void>
}

export async function openCrashRun({
  disk,
  bucket,
  failpoint = () => undefined,
  layoutName = 'mirror',
}: CrashRunOptions): Promise<CrashRun> {
  const dir = join(disk, 'sessions', 's1')
  const storageRoot = join(disk, 'storage')
  mkdirSync(dirname(dir), { recursive: true })
  const durability = openSessionDurability({
    store: new ObjectStore(new RangedDirectory(bucket), { name: 'directory' }),
    backendName: 'directory',
    storeId: 'directory',
    sessionId: 's1',
    sessionsRoot: dirname(dir),
    storageRoot,
    policy: 'degrade',
    staleLocal: 'set-aside',
    onLost: 'stop',
    onMixed: 'fail',
    instanceId: `${process.pid}-${Math.random()}`,
    host: disk,
    pid: process.pid,
    failpoint,
    layoutName,
  })
  await durability.shared.hydrate()
  const resolution = await durability.resolveTree({
    localExists: existsSync(dir),
    prepareStaging: async () => undefined,
    createTree: async () => mkdirSync(dir, { mode: 0o700 }),
  })
  await durability.claimOwner()
  const storage = openStorageManager({
    sessionDir: dir,
    storageRoot,
    beforeOpen: (scope, pluginId, path) => durability.shared.guard(scope, pluginId, path),
  })
  const journal = await JournalWriter.open(join(dir, 'journal'), {
    fsync: 'none',
    rotateBytes: 1 << 22,
    sessionId: 's1',
  })
  const bus = new EventBus({ sessionId: 's1', clock: systemClock, logger: silentLogger })
  bus.setRecorder(new JournalRecorder(journal, { fsync: 'none', excludeEvents: [] }))
  durability.attach({ tell: tellOn(bus), journal, storage })
  joinDurability(bus, durability)
  await durability.raiseDeferred()
  const conversation = join(dir, 'conversation')
  const turns = (): string[] =>
    existsSync(conversation) ? readFileSync(conversation, 'utf8').split('\n').slice(0, -1) : []
  return {
    dir,
    durability,
    storage,
    resolution,
    turns,
    async turn(id, work = () => undefined) {
      writeFileSync(conversation, [...turns(), id, ''].join('\n'))
      work()
      await bus.emit('agent.turn.end', { turn_id: id, session_id: 's1' })
    },
    async abandon() {
      await durability.abandon()
      await journal.close()
    },
    async stop() {
      await durability.detachInputs()
      await journal.close()
      await storage.closeAll()
      await durability.finish({ clean: true })
      bus.close()
      await storage.dispose()
    },
  }
}
