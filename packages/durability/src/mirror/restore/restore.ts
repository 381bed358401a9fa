import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { engineTempName, sharedDigester } from '@nexus/host'
import { scrubCommitted } from '../../layout/scrub-committed.ts'
import type { Restored, StagedTree } from '../../layout/staged-tree.ts'
import { sessionKeys, type SessionKeys } from '../../tree/keys.ts'
import { ACTIVE_SEGMENT_PATH, isLocalName } from '../../tree/names.ts'
import { totalBytes } from '../../tree/committed.ts'
import type { RestoreOptions } from '../../layout/layout.ts'
import { readCommittedManifest } from '../manifest/read.ts'
import type { MirrorContext } from '../commit.ts'
import type { Manifest, ManifestEntry } from '../manifest/manifest.ts'
import { takeExtraBlobs } from './extra-blobs.ts'
import { fetchNamed, fetchPruned, getObject, type Fetched, type FetchOptions, type Reusable } from './fetch.ts'
import { corrupt, isWhole, judgeFetched } from './judge.ts'
import { repairActiveSegment } from './repair-segment.ts'

/** Fills a staged tree with the committed generation of the mirror layout. */
export class MirrorRestore {
  readonly #options: RestoreOptions & MirrorContext
  readonly #keys: SessionKeys
  readonly #signal: AbortSignal | undefined

  constructor(context: MirrorContext, options: RestoreOptions) {
    this.#options = { ...context, ...options }
    this.#keys = sessionKeys(context.sessionId)
    this.#signal = options.signal
  }

  /**
   * Fetches what is committed. Modes, times, directories and links are left to the caller.
   *
   * @returns undefined when no commit was ever completed
   */
  async into(tree: StagedTree): Promise<Restored | undefined> {
    const { scratchDir } = this.#options
    const first = await this.#readManifest(scratchDir)
    await this.#options.failpoint('hydrate:manifest-read')
    if (first === undefined) {
      await this.#refuseLostManifest(scratchDir)
      return undefined
    }
    return await this.#take(first, tree, scratchDir)
  }

  #readManifest(scratchDir: string): Promise<Manifest | undefined> {
    return readCommittedManifest(this.#options.store, this.#options.sessionId, { scratchDir, signal: this.#signal })
  }

  async #take(first: Manifest, tree: StagedTree, scratchDir: string): Promise<Restored> {
    const { store, sessionId, onMixed, logger, failpoint, slices } = this.#options
    let committed = first
    let manifest = await scrubCommitted(committed, sessionId, logger, slices)
    let fetched = await this.#fetch(manifest, tree, scratchDir, () => undefined)
    if (!isWhole(fetched)) {
      // Another host may have committed while we were fetching: then its manifest says what the store holds.
      const newer = await this.#readManifest(scratchDir)
      if (newer !== undefined && (newer.generation !== manifest.generation || newer.nonce !== manifest.nonce)) {
        const reusable = this.#setAside(tree, manifest, fetched, scratchDir)
        committed = newer
        manifest = await scrubCommitted(committed, sessionId, logger, slices)
        fetched = await this.#fetch(manifest, tree, scratchDir, reusable)
      }
    }
    await failpoint('hydrate:fetched')
    const mixed = await judgeFetched(manifest, fetched, {
      store,
      keys: this.#keys,
      onMixed,
      logger,
      signal: this.#signal,
    })
    // Version 1 says nothing of directories.
    if (manifest['_schema_version'] === 1) tree.makeSessionDirs()
    return {
      committed,
      content: manifest,
      objects: manifest.objects.length,
      bytes: await totalBytes(manifest, slices),
      ...(mixed === undefined ? {} : { mixed }),
    }
  }

  async #fetch(manifest: Manifest, tree: StagedTree, scratchDir: string, reusable: Reusable): Promise<Fetched> {
    const { store, logger } = this.#options
    const options: FetchOptions = {
      ...this.#options,
      treeKey: this.#keys.tree,
      tree,
      digester: sharedDigester(logger),
      scratchDir,
      rawDir: store.capabilities.get ? undefined : join(scratchDir, engineTempName()),
    }
    const fetched =
      options.rawDir === undefined
        ? await fetchNamed(manifest, options, reusable)
        : await fetchPruned(manifest, options.rawDir, options)
    if (fetched.cut.length > 0) {
      logger.info({ paths: fetched.cut }, 'cut objects back to what was committed: a snapshot was interrupted')
    }
    if (fetched.differing.has(ACTIVE_SEGMENT_PATH)) await repairActiveSegment(manifest, fetched, options)
    // The committed history may speak of blobs that an older build stopped naming when they left its disk.
    await takeExtraBlobs(manifest, options)
    return fetched
  }

  /** Empties the staged tree for another manifest; files that were verified can be taken over where it names the same. */
  #setAside(tree: StagedTree, manifest: Manifest, fetched: Fetched, scratchDir: string): Reusable {
    const oldDir = join(scratchDir, engineTempName())
    tree.fs.mkdirSync(oldDir, { mode: 0o700 })
    for (const name of tree.fs.readdirSync(tree.dir)) {
      if (!isLocalName(name, true)) tree.fs.renameSync(join(tree.dir, name), join(oldDir, name))
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

  /**
   * A marker without its manifest is damage: the marker is put after it, never before. Objects without either are what a
   * first snapshot left that died before its commit. No turn of that session was ever completed, so there is no session.
   */
  async #refuseLostManifest(scratchDir: string): Promise<void> {
    const { store, sessionId, logger } = this.#options
    if (!store.capabilities.get) return
    const { marker, manifest } = this.#keys
    if (await getObject(store, marker, join(scratchDir, engineTempName()), { signal: this.#signal, bytes: 0 })) {
      throw corrupt(`the store holds the commit marker ${marker} and has lost the manifest ${manifest}`, manifest)
    }
    logger.debug({ session_id: sessionId }, 'the store holds no commit of the session')
  }
}
