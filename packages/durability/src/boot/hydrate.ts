import nodeFs from 'node:fs'
import { join } from 'node:path'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'
import {
  engineTempName,
  noFailpoint,
  silentLogger,
  Slices,
  systemClock,
  type Clock,
  type Failpoint,
  type Logger,
} from '@nexus/host'
import type { Committed } from '../tree/committed.ts'
import type { Layout, OnMixedPolicy } from '../layout/layout.ts'
import { createStagingDir, fromLocalFailure, removeStagingDir } from '../tree/staging.ts'
import {
  restoreAttributes,
  restoring,
  StagedTree,
  type HydrateFs,
  type Mixture,
  type Restored,
} from '../layout/staged-tree.ts'

/** How a session is hydrated. */
export interface HydrateOptions {
  layout: Layout
  sessionId: string
  sessionsRoot: string
  /** Called with the fresh staging directory before anything is fetched: writes our lock into it. */
  prepareStaging: (dir: string) => Promise<void>
  /** Called when the tree is whole, before it appears: notes on the disk whose commit it is. */
  beforePlacing?: (restored: Restored) => Promise<void>
  onMixed: OnMixedPolicy
  signal?: AbortSignal | undefined
  clock?: Clock
  logger?: Logger
  failpoint?: Failpoint
  /** Downloads in flight, default 16. */
  concurrency?: number
  fs?: HydrateFs
}

/** What a hydration did. */
export interface HydrateResult {
  /** `never-seen`: the store says that no commit was ever completed; nothing was created. */
  outcome: 'hydrated' | 'never-seen'
  committed?: Committed
  mixed?: Mixture
  objects: number
  bytes: number
  durationMs: number
}

/** Failpoints of a hydration, in the order it passes them; `object-fetched` is passed once per object. */
export const HYDRATE_FAILPOINTS: readonly string[] = [
  'hydrate:staging-made',
  'hydrate:locked',
  'hydrate:manifest-read',
  'hydrate:object-fetched',
  'hydrate:fetched',
  'hydrate:files-restored',
  'hydrate:links-made',
  'hydrate:modes-set',
  'hydrate:before-record',
  'hydrate:before-rename',
  'hydrate:renamed',
]

const OP = 'hydrate'
const DEFAULT_CONCURRENCY = 16

/**
 * Restores a session tree from the store to `<sessionsRoot>/<sessionId>`, whole or not at all: it appears there by one
 * rename, with our lock in it. What this machine remembers of it is on the disk before the rename: a tree without a record
 * would be taken for one of unknown descent, and a record without its tree is replaced by the next hydration.
 *
 * Rejects with `CORRUPT` and the path when the commit is damaged or names an object that is missing, `UNSUPPORTED` for
 * an unknown schema version, `PRECONDITION` when the tree exists already, and with the store's own error when it fails.
 *
 * @see docs/concepts/durability.md
 */
export async function hydrateSession(options: HydrateOptions): Promise<HydrateResult> {
  const { sessionsRoot, sessionId, prepareStaging, beforePlacing, signal } = options
  const { clock = systemClock, logger = silentLogger, failpoint = noFailpoint, fs = nodeFs } = options
  const startedMs = clock.now()
  signal?.throwIfAborted()
  const finalDir = join(sessionsRoot, sessionId)
  refuseExisting(finalDir, fs)
  const stagingDir = createStagingDir(sessionsRoot, 'hydrating', sessionId)
  try {
    await failpoint('hydrate:staging-made')
    await prepareStaging(stagingDir)
    await failpoint('hydrate:locked')
    const scratchDir = join(stagingDir, engineTempName())
    fs.mkdirSync(scratchDir, { mode: 0o700 })
    const tree = new StagedTree(stagingDir, fs)
    const slices = new Slices({ signal })
    const { layout, onMixed, concurrency = DEFAULT_CONCURRENCY } = options
    const restored = await layout.restore(tree, { scratchDir, onMixed, slices, concurrency, signal })
    if (restored !== undefined) {
      await restoreAttributes(tree, restored.content, { slices, failpoint })
      await removeStagingDir(scratchDir)
      await failpoint('hydrate:before-record')
      await beforePlacing?.(restored)
      await failpoint('hydrate:before-rename')
      signal?.throwIfAborted()
      moveIntoPlace(stagingDir, finalDir, fs)
      await failpoint('hydrate:renamed')
    }
    const durationMs = clock.now() - startedMs
    if (restored === undefined) return { outcome: 'never-seen', objects: 0, bytes: 0, durationMs }
    const { content: _, ...rest } = restored
    return { outcome: 'hydrated', ...rest, durationMs }
  } catch (error) {
    throw fromLocalFailure(error, OP)
  } finally {
    // Gone already when the tree is in its place.
    await removeStagingDir(stagingDir).catch((error: unknown) => {
      logger.warn({ err: error, path: stagingDir }, 'a staging directory could not be removed; a later boot will')
    })
  }
}

function refuseExisting(finalDir: string, fs: HydrateFs): void {
  if (restoring(finalDir, () => fs.lstatSync(finalDir, { throwIfNoEntry: false })) === undefined) return
  throw new NexusError('PRECONDITION', `${finalDir} exists: a session is hydrated only where there is none`, {
    op: OP,
    key: finalDir,
  })
}

function moveIntoPlace(stagingDir: string, finalDir: string, fs: HydrateFs): void {
  try {
    fs.renameSync(stagingDir, finalDir)
  } catch (error) {
    const code = systemCode(error)
    if (code === 'ENOTEMPTY' || code === 'EEXIST' || code === 'ENOTDIR') refuseExisting(finalDir, fs)
    throw fromSystemError(error, OP, finalDir)
  }
}
