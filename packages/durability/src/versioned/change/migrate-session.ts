import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isNexusError, NexusError } from '@nexus/errors'
import { engineTempName, noFailpoint, silentLogger } from '@nexus/host'
import { type ObjectStore, pause } from '@nexus/objectstore'
import { hydrateSession } from '../../boot/hydrate.ts'
import type { Layout } from '../../layout/layout.ts'
import { MOVED_SCHEMA_VERSION, type MovedManifest, movedNonce } from '../../mirror/manifest/moved.ts'
import { mirrorLayout } from '../../mirror-layout.ts'
import type { Committed } from '../../tree/committed.ts'
import { sessionKeys } from '../../tree/keys.ts'
import { removeStagingDir } from '../../tree/staging.ts'
import type { CommitFacts } from '../core/commit-facts.ts'
import { findHead } from '../core/head-search.ts'
import { waiting } from '../store/session-objects.ts'
import { prepareSnapshot } from '../store/write/prepare-commit.ts'
import { restoreSession } from '../history/restore-session.ts'
import { type HistorySource, openGeneration, withSource } from '../history/history-source.ts'
import {
  authorContext,
  baseOn,
  type ChangeOptions,
  commitBehind,
  prepareEmpty,
  refuseLive,
  TOOL_INSTANCE,
} from './chain-author.ts'
import { firstDifference, withCapturedCopy } from './tree-copy.ts'

/** Failpoints of a migration, in the order it passes them: to the versioned layout, then back. */
export const MIGRATE_FAILPOINTS: readonly string[] = [
  'migrate:fetched',
  'migrate:committed',
  'migrate:verified',
  'migrate:moved',
  'migrate:mirrored',
  'migrate:mirror-verified',
  'migrate:ended',
]

/** Where a session goes, and how. */
export interface MigrateOptions extends ChangeOptions {
  to: 'versioned' | 'mirror'
  /** The session may be removed so long after its last commit. 0, the default: never. */
  ttlMs?: number | undefined
  /** How long a mirror writer that was about to commit is waited for, in milliseconds. Default 2,000. */
  settleMs?: number | undefined
}

/** A session that lies in another layout now. */
export interface MigratedSession {
  id: string
  to: 'versioned' | 'mirror'
  /** Its newest commit there. */
  generation: number
  /** It was there already. */
  wasThere: boolean
}

const SETTLE_MS = 2_000

/**
 * Moves a session to the other layout, verified before the last act: everything is read back and compared. Cut anywhere, the
 * session is in the layout that it was in, and doing it again goes on. To the versioned layout the last act is a mirror manifest
 * that says so, which stops a mirror writer that slept; to the mirror layout it is a commit that ends the chain.
 *
 * @throws SessionOwnedError (`LOCKED`) when the owner looks live; NexusError `NOT_FOUND`, `UNSUPPORTED` for a backend without
 *   `get` and `putIfAbsent`, `PRECONDITION` when another host committed meanwhile or both layouts hold a session; `CORRUPT` when
 *   what was read back differs
 */
export async function migrateSession(
  store: ObjectStore,
  sessionId: string,
  options: MigrateOptions,
): Promise<MigratedSession> {
  const { get, putIfAbsent } = store.capabilities
  if (!get || !putIfAbsent) throw failed('UNSUPPORTED', sessionId, 'the backend lacks get or putIfAbsent')
  return await withSource(store, sessionId, options, async (source) => {
    await refuseLive(source, options)
    const workDir = mkdtempSync(join(tmpdir(), 'nexus-migrate-'))
    try {
      const migration = new Migration(source, workDir, options)
      return options.to === 'versioned' ? await migration.toVersioned() : await migration.toMirror()
    } finally {
      await removeStagingDir(workDir)
    }
  })
}

class Migration {
  readonly #source: HistorySource
  readonly #workDir: string
  readonly #options: MigrateOptions
  readonly #mirror: Layout

  constructor(source: HistorySource, workDir: string, options: MigrateOptions) {
    const { objects, sessionId, clock } = source
    const { store, scratchDir } = objects.place
    const { logger = silentLogger } = options
    this.#source = source
    this.#workDir = workDir
    this.#options = options
    this.#mirror = mirrorLayout({ store, sessionId, clock, logger, failpoint: noFailpoint }, scratchDir)
  }

  get #id(): string {
    return this.#source.sessionId
  }

  async toVersioned(): Promise<MigratedSession> {
    const { sessionId: id, commits, loading } = this.#source
    const { failpoint = noFailpoint } = this.#options
    const head = await findHead(commits)
    const chain = head.is === 'commit' ? head.commit : undefined
    const isAlive = chain !== undefined && chain.kind !== 'migrate' && chain.kind !== 'removed'
    const moved = await this.#movedNonce()
    if (moved !== undefined) {
      if (isAlive) return { id, to: 'versioned', generation: chain.generation, wasThere: true }
      throw failed('NOT_FOUND', id, 'it was moved to the versioned layout, and has no commit there')
    }
    // A chain that a migration began and could not end is no more than a copy.
    if (isAlive && chain.instanceId !== TOOL_INSTANCE) {
      const found = (await this.#mirror.head(loading.signal)) === undefined
      if (found) return { id, to: 'versioned', generation: chain.generation, wasThere: true }
      throw failed('PRECONDITION', id, 'both layouts hold a session of this id: remove one of them')
    }
    const { dir, committed } = await this.#fetchMirror('mirror')
    await failpoint('migrate:fetched')
    const made = await this.#commitTo(chain, dir, committed)
    await failpoint('migrate:committed')
    const back = join(this.#workDir, 'back')
    const reading = { ...this.#options, generation: made, to: back }
    await restoreSession(this.#source.objects.place.store, id, reading)
    await this.#refuseDifference(dir, back)
    await failpoint('migrate:verified')
    const now = await this.#mirror.head(loading.signal)
    if (now?.generation !== committed.generation || now.nonce !== committed.nonce) throw this.#lost()
    await this.#putMoved(made)
    await failpoint('migrate:moved')
    return { id, to: 'versioned', generation: made, wasThere: false }
  }

  async toMirror(): Promise<MigratedSession> {
    const { sessionId: id, commits, loading, objects } = this.#source
    const { failpoint = noFailpoint } = this.#options
    const head = await findHead(commits)
    const chain = head.is === 'commit' ? head.commit : undefined
    if (chain === undefined || chain.kind === 'migrate') {
      const mirrored = await this.#mirror.head(loading.signal)
      if (mirrored === undefined) throw failed('NOT_FOUND', id, 'the store has no session of this id')
      return { id, to: 'mirror', generation: mirrored.generation, wasThere: true }
    }
    const opened = await openGeneration(this.#source, chain.generation)
    const dir = join(this.#workDir, 'versioned')
    await restoreSession(objects.place.store, id, { ...this.#options, generation: chain.generation, to: dir })
    await failpoint('migrate:fetched')
    const { journalLastSeq: lastSeq, mixedFrom } = opened.state
    const generation = chain.generation + 1
    const facts = {
      generation,
      nonce: nonce(),
      instanceId: TOOL_INSTANCE,
      turnId: opened.header.turn_id,
      mixedFrom,
      lastSeq,
    }
    await withCapturedCopy(dir, facts, { ...loading, workDir: this.#workDir }, async (captured) => {
      await this.#mirror.commit(captured, {
        signal: loading.signal,
        beforeCommit: async () => undefined,
        confirm: async () => undefined,
        lost: () => {
          throw this.#lost()
        },
      })
    })
    await failpoint('migrate:mirrored')
    await this.#refuseDifference(dir, (await this.#fetchMirror('mirror')).dir)
    await failpoint('migrate:mirror-verified')
    const ended = await commitBehind(this.#source, chain, (number) =>
      prepareEmpty(this.#source, 'migrate', baseOn(chain, number), this.#options),
    )
    if (ended === 'lost') {
      // The chain goes on: the mirror must not be taken for the newer one.
      await this.#putMoved(chain.generation)
      throw this.#lost()
    }
    await failpoint('migrate:ended')
    return { id, to: 'mirror', generation, wasThere: false }
  }

  /** The newest mirror commit in a directory of its own. */
  async #fetchMirror(name: string): Promise<{ dir: string; committed: Committed }> {
    const sessionsRoot = join(this.#workDir, name)
    mkdirSync(sessionsRoot)
    const { committed } = await hydrateSession({
      layout: this.#mirror,
      sessionId: this.#id,
      sessionsRoot,
      prepareStaging: async () => undefined,
      onMixed: 'fail',
      signal: this.#source.loading.signal,
      concurrency: this.#source.loading.concurrency,
    })
    if (committed === undefined)
      throw failed('NOT_FOUND', this.#id, 'the store has no commit of it in the mirror layout')
    return { dir: join(sessionsRoot, this.#id), committed }
  }

  async #commitTo(parent: CommitFacts | undefined, dir: string, committed: Committed): Promise<number> {
    const { loading } = this.#source
    const { journal, mixed_from: mixedFrom } = committed
    const facts = { generation: 0, nonce: nonce(), instanceId: TOOL_INSTANCE, mixedFrom, lastSeq: journal.last_seq }
    const made = await withCapturedCopy(dir, facts, { ...loading, workDir: this.#workDir }, (captured) =>
      commitBehind(this.#source, parent, (generation) =>
        prepareSnapshot(
          authorContext(this.#source, this.#options),
          baseOn(parent, generation),
          { ...captured, generation },
          loading.signal,
        ),
      ),
    )
    if (made === 'lost') throw this.#lost()
    return made.generation
  }

  async #refuseDifference(a: string, b: string): Promise<void> {
    const { logger = silentLogger } = this.#options
    const path = await firstDifference(a, b, { logger, slices: this.#source.loading.slices })
    if (path !== undefined)
      throw failed('CORRUPT', this.#id, `${path} was read back as something else; nothing was moved`)
  }

  /** Says in the mirror that the session went on elsewhere, and looks whether a writer that was about to commit wrote over it. */
  async #putMoved(generation: number): Promise<void> {
    const { objects, clock, loading } = this.#source
    const { store } = objects.place
    const manifest: MovedManifest = {
      _schema_version: MOVED_SCHEMA_VERSION,
      session_id: this.#id,
      generation,
      nonce: nonce(),
      instance_id: TOOL_INSTANCE,
      completed_at: new Date(clock.now()).toISOString(),
      moved: 'versioned',
    }
    const path = join(this.#workDir, engineTempName())
    writeFileSync(path, JSON.stringify(manifest), { mode: 0o600 })
    await store.put(sessionKeys(this.#id).manifest, path, waiting(loading.signal))
    await store.flush(waiting(loading.signal))
    await pause(this.#options.settleMs ?? SETTLE_MS, loading.signal, clock)
    if ((await this.#movedNonce()) !== manifest.nonce) throw this.#lost()
  }

  async #movedNonce(): Promise<string | undefined> {
    const { objects, loading } = this.#source
    const path = join(this.#workDir, engineTempName())
    try {
      await objects.place.store.get(sessionKeys(this.#id).manifest, path, { length: 4096, ...waiting(loading.signal) })
      return movedNonce(readFileSync(path, 'utf8'))
    } catch (error) {
      if (isNexusError(error, 'NOT_FOUND')) return undefined
      throw error
    } finally {
      rmSync(path, { force: true })
    }
  }

  #lost(): NexusError {
    return failed(
      'PRECONDITION',
      this.#id,
      'it was committed by another host meanwhile; stop that host, and migrate again',
    )
  }
}

function nonce(): string {
  return randomBytes(16).toString('hex')
}

function failed(code: 'PRECONDITION' | 'NOT_FOUND' | 'UNSUPPORTED' | 'CORRUPT', id: string, why: string): NexusError {
  return new NexusError(code, `session ${id} can not be moved to the other layout: ${why}`, {
    op: 'history.migrate',
    key: id,
  })
}
