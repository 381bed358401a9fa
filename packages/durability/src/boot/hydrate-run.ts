import nodeFs, { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'
import type { ObjectStore } from '@nexus/objectstore'
import {
  type Clock,
  engineTempName,
  type Failpoint,
  type Logger,
  noFailpoint,
  silentLogger,
  Slices,
  systemClock,
} from '@nexus/host'
import { fetchNamed, fetchPruned, getObject, type Fetched, type FetchOptions, type Reusable } from './hydrate-fetch.ts'
import { restoreAttributes, restoring, StagedTree, type HydrateFs } from './hydrate-restore.ts'
import { takeExtraBlobs, takeUnversioned } from './hydrate-unnamed.ts'
import { corrupt, isWhole, judgeFetched } from './hydrate-judge.ts'
import { sessionKeys, type SessionKeys } from '../tree/keys.ts'
import { ACTIVE_SEGMENT_PATH, isLocalName } from '../tree/names.ts'
import { scrubManifest } from '../mirror/manifest-scrub.ts'
import { readCommittedManifest } from '../mirror/manifest-store.ts'
import { totalBytes, type Manifest, type ManifestEntry } from '../mirror/manifest.ts'
import { repairActiveSegment } from './repair-segment.ts'
import { createStagingDir, fromLocalFailure, removeStagingDir } from '../tree/staging.ts'
import { sharedDigester } from '../capture/digester.ts'
import type { HydrateOptions, HydrateResult } from './hydrate.ts'

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
  'hydrate:before-rename',
  'hydrate:renamed',
]

const DEFAULT_CONCURRENCY = 16
const OP = 'hydrate'

type Filled = Omit<HydrateResult, 'durationMs'>

/** One hydration on its way; see {@link hydrateSession}. */
export class HydrateRun {
  readonly #options: HydrateOptions
  readonly #store: ObjectStore
  readonly #keys: SessionKeys
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #failpoint: Failpoint
  readonly #waiting: { signal?: AbortSignal }
  readonly #slices: Slices
  readonly #fs: HydrateFs

  constructor(options: HydrateOptions) {
    this.#options = options
    this.#store = options.store
    this.#keys = sessionKeys(options.sessionId)
    this.#clock = options.clock ?? systemClock
    this.#logger = options.logger ?? silentLogger
    this.#failpoint = options.failpoint ?? noFailpoint
    this.#waiting = options.signal === undefined ? {} : { signal: options.signal }
    this.#slices = new Slices(this.#waiting)
    this.#fs = options.fs ?? nodeFs
  }

  async run(): Promise<HydrateResult> {
    const { sessionsRoot, sessionId, prepareStaging, signal } = this.#options
    const startedMs = this.#clock.now()
    signal?.throwIfAborted()
    const finalDir = join(sessionsRoot, sessionId)
    this.#refuseExisting(finalDir)
    const stagingDir = createStagingDir(sessionsRoot, 'hydrating', sessionId)
    try {
      await this.#failpoint('hydrate:staging-made')
      await prepareStaging(stagingDir)
      await this.#failpoint('hydrate:locked')
      const scratchDir = join(stagingDir, engineTempName())
      this.#fs.mkdirSync(scratchDir, { mode: 0o700 })
      const filled = await this.#fill(new StagedTree(stagingDir, this.#fs), scratchDir)
      if (filled.outcome !== 'never-seen') {
        await removeStagingDir(scratchDir)
        await this.#failpoint('hydrate:before-rename')
        signal?.throwIfAborted()
        this.#moveIntoPlace(stagingDir, finalDir)
        await this.#failpoint('hydrate:renamed')
      }
      return { ...filled, durationMs: this.#clock.now() - startedMs }
    } catch (error) {
      throw fromLocalFailure(error, OP)
    } finally {
      // Gone already when the tree is in its place.
      await removeStagingDir(stagingDir).catch((error: unknown) => {
        this.#logger.warn(
          { err: error, path: stagingDir },
          'a staging directory could not be removed; a later boot will',
        )
      })
    }
  }

  #refuseExisting(finalDir: string): void {
    if (restoring(finalDir, () => this.#fs.lstatSync(finalDir, { throwIfNoEntry: false })) === undefined) return
    throw new NexusError('PRECONDITION', `${finalDir} exists: a session is hydrated only where there is none`, {
      op: OP,
      key: finalDir,
    })
  }

  #moveIntoPlace(stagingDir: string, finalDir: string): void {
    try {
      this.#fs.renameSync(stagingDir, finalDir)
    } catch (error) {
      const code = systemCode(error)
      if (code === 'ENOTEMPTY' || code === 'EEXIST' || code === 'ENOTDIR') this.#refuseExisting(finalDir)
      throw fromSystemError(error, OP, finalDir)
    }
  }

  async #fill(tree: StagedTree, scratchDir: string): Promise<Filled> {
    const manifest = await this.#readManifest(scratchDir)
    await this.#failpoint('hydrate:manifest-read')
    if (manifest === undefined) return this.#fillUnversioned(tree, scratchDir)
    return this.#fillCommitted(manifest, tree, scratchDir)
  }

  #readManifest(scratchDir: string): Promise<Manifest | undefined> {
    return readCommittedManifest(this.#store, this.#options.sessionId, { scratchDir, ...this.#waiting })
  }

  async #fillCommitted(first: Manifest, tree: StagedTree, scratchDir: string): Promise<Filled> {
    let committed = first
    let manifest = scrubManifest(committed, this.#logger)
    let fetched = await this.#fetch(manifest, tree, scratchDir, () => undefined)
    if (!isWhole(fetched)) {
      // Another host may have committed while we were fetching: then its manifest says what the store holds.
      const newer = await this.#readManifest(scratchDir)
      if (newer !== undefined && (newer.generation !== manifest.generation || newer.nonce !== manifest.nonce)) {
        const reusable = this.#setAside(tree, manifest, fetched, scratchDir)
        committed = newer
        manifest = scrubManifest(committed, this.#logger)
        fetched = await this.#fetch(manifest, tree, scratchDir, reusable)
      }
    }
    await this.#failpoint('hydrate:fetched')
    const mixed = await judgeFetched(manifest, fetched, {
      store: this.#store,
      treeKey: this.#keys.tree,
      onMixed: this.#options.onMixed,
      logger: this.#logger,
      ...this.#waiting,
    })
    // Version 1 says nothing of directories.
    if (manifest['_schema_version'] === 1) tree.makeSessionDirs()
    await restoreAttributes(tree, manifest, { slices: this.#slices, failpoint: this.#failpoint })
    return {
      outcome: 'hydrated',
      manifest: committed,
      objects: manifest.objects.length,
      bytes: totalBytes(manifest),
      ...(mixed === undefined ? {} : { mixed }),
    }
  }

  async #fetch(manifest: Manifest, tree: StagedTree, scratchDir: string, reusable: Reusable): Promise<Fetched> {
    const options = this.#fetchOptions(tree)
    const hasGet = this.#store.capabilities.get
    const rawDir = hasGet ? undefined : join(scratchDir, engineTempName())
    const fetched =
      rawDir === undefined
        ? await fetchNamed(manifest, options, reusable)
        : await fetchPruned(manifest, rawDir, options)
    if (fetched.cut.length > 0) {
      this.#logger.info({ paths: fetched.cut }, 'cut objects back to what was committed: a snapshot was interrupted')
    }
    const raw = rawDir === undefined ? {} : { rawDir }
    if (fetched.differing.has(ACTIVE_SEGMENT_PATH)) {
      await repairActiveSegment(manifest, fetched, { ...options, ...raw, scratchDir, logger: this.#logger })
    }
    // The committed history may speak of blobs that an older build stopped naming when they left its disk.
    await takeExtraBlobs(manifest, { ...options, ...raw, logger: this.#logger })
    return fetched
  }

  #fetchOptions(tree: StagedTree): FetchOptions {
    return {
      store: this.#store,
      treeKey: this.#keys.tree,
      tree,
      digester: sharedDigester(),
      slices: this.#slices,
      concurrency: this.#options.concurrency ?? DEFAULT_CONCURRENCY,
      failpoint: this.#failpoint,
      ...this.#waiting,
    }
  }

  /** Empties the staged tree for another manifest; files that were verified can be taken over where it names the same. */
  #setAside(tree: StagedTree, manifest: Manifest, fetched: Fetched, scratchDir: string): Reusable {
    const oldDir = join(scratchDir, engineTempName())
    this.#fs.mkdirSync(oldDir, { mode: 0o700 })
    for (const name of this.#fs.readdirSync(tree.dir)) {
      if (!isLocalName(name, true)) this.#fs.renameSync(join(tree.dir, name), join(oldDir, name))
    }
    tree.forget()
    const isVerified = (path: string, { size, sha256 }: ManifestEntry): boolean => {
      const before = manifest.entries[path]
      return before?.size === size && before.sha256 === sha256 && !fetched.differing.has(path)
    }
    return (path, entry) => {
      const oldPath = join(oldDir, path)
      return isVerified(path, entry) && existsSync(oldPath) ? oldPath : undefined
    }
  }

  /** Without a manifest the objects are those of an older build, or of a first snapshot that died before its commit. */
  async #fillUnversioned(tree: StagedTree, scratchDir: string): Promise<Filled> {
    await this.#refuseLostManifest(scratchDir)
    const taken = await takeUnversioned(join(scratchDir, engineTempName()), this.#fetchOptions(tree))
    if (taken.objects === 0) return { outcome: 'never-seen', objects: 0, bytes: 0 }
    const { sessionId, onMixed } = this.#options
    const reason = 'the store holds objects of the session and no committed manifest'
    if (onMixed === 'fail') throw corrupt(`session ${sessionId} can't be restored: ${reason}`, this.#keys.manifest)
    this.#logger.warn({ session_id: sessionId, objects: taken.objects }, `${reason}: taking everything there is`)
    tree.makeSessionDirs()
    return { outcome: 'unversioned', mixed: { generation: 0, reason, paths: [] }, ...taken }
  }

  // The marker is put after the manifest, never before.
  async #refuseLostManifest(scratchDir: string): Promise<void> {
    if (!this.#store.capabilities.get) return
    const { marker, manifest } = this.#keys
    if (await getObject(this.#store, marker, join(scratchDir, engineTempName()), { ...this.#waiting, bytes: 0 })) {
      throw corrupt(`the store holds the commit marker ${marker} and has lost the manifest ${manifest}`, manifest)
    }
  }
}
