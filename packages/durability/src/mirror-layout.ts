import { isObjectNotFound } from '@nexus/objectstore'
import type { Restored, StagedTree } from './layout/staged-tree.ts'
import type { Committed, CommitHead } from './tree/committed.ts'
import type { CapturedTree, CommitFence, Layout, LayoutCommit, RestoreOptions } from './layout/layout.ts'
import { sessionKeys } from './tree/keys.ts'
import { MirrorCommit, type MirrorContext } from './mirror/commit.ts'
import { readCommittedManifest, readCommittedPair } from './mirror/manifest/read.ts'
import { MirrorRestore } from './mirror/restore/restore.ts'

/**
 * The layout in which a bucket looks like the session: one object per file under the name of the file, and a manifest that
 * says which of them belong together. Objects are overwritten in place.
 *
 * @param scratchDir where short-lived files go; made when it is missing
 * @see docs/formats/object-store.md
 */
export function mirrorLayout(context: MirrorContext, scratchDir: string): Layout {
  return new MirrorLayout(context, scratchDir)
}

class MirrorLayout implements Layout {
  readonly #context: MirrorContext
  readonly #scratchDir: string
  readonly #treeKey: string

  constructor(context: MirrorContext, scratchDir: string) {
    this.#context = context
    this.#scratchDir = scratchDir
    this.#treeKey = sessionKeys(context.sessionId).tree
  }

  async head(signal?: AbortSignal): Promise<CommitHead | undefined> {
    const { store, sessionId } = this.#context
    return await readCommittedPair(store, sessionId, { scratchDir: this.#scratchDir, signal })
  }

  async committed(signal?: AbortSignal): Promise<Committed | undefined> {
    const { store, sessionId } = this.#context
    return await readCommittedManifest(store, sessionId, { scratchDir: this.#scratchDir, signal })
  }

  async commit(captured: CapturedTree, fence: CommitFence): Promise<LayoutCommit> {
    return await new MirrorCommit(this.#context, captured, fence).run()
  }

  async restore(tree: StagedTree, options: RestoreOptions): Promise<Restored | undefined> {
    return await new MirrorRestore(this.#context, options).into(tree)
  }

  async pushBlob(path: string, localPath: string, signal: AbortSignal): Promise<void> {
    await this.#context.store.put(`${this.#treeKey}/${path}`, localPath, { signal })
  }

  async fetchBlob(path: string, localPath: string, signal: AbortSignal): Promise<boolean> {
    const { store } = this.#context
    if (!store.capabilities.get) return false
    try {
      await store.get(`${this.#treeKey}/${path}`, localPath, { signal })
      return true
    } catch (error) {
      if (isObjectNotFound(error)) return false
      throw error
    }
  }
}
