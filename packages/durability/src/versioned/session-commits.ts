import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { isNexusError, NexusError } from '@nexus/errors'
import { engineTempName } from '@nexus/host'
import type { CommitFacts, Found } from './core/commit-facts.ts'
import type { AttemptStore } from './core/commit-store.ts'
import { folderKey, hintKey, parseName } from './core/versioned-keys.ts'
import { decodeHead, type ReadHeader } from './format/commit-object.ts'
import type { PreparedCommit } from './store/write/prepare-commit.ts'
import { type SessionObjects, waiting } from './store/session-objects.ts'

/** The commits of one session in a store, as the decisions see them. */
export class SessionCommits implements AttemptStore<PreparedCommit> {
  readonly #objects: SessionObjects
  /** Ends the calls of whoever uses it now. */
  signal: AbortSignal | undefined

  constructor(objects: SessionObjects) {
    this.#objects = objects
  }

  async list(folder: number): Promise<number[]> {
    const { store, root } = this.#objects.place
    const listed = await store.list(folderKey(root, folder), waiting(this.signal))
    return listed.flatMap(({ key }) => {
      const name = parseName(key.slice(root.length + 1))
      return name?.is === 'commit' ? [name.generation] : []
    })
  }

  async read(generation: number): Promise<Found> {
    try {
      const found = await this.#objects.readHead(generation, this.signal)
      return found.is === 'commit' ? { is: 'commit', commit: factsOf(found.head) } : { is: found.is }
    } catch (error) {
      if (isNexusError(error, 'CORRUPT') || isNexusError(error, 'UNSUPPORTED')) return { is: 'corrupt', error }
      throw error
    }
  }

  async hint(): Promise<number | undefined> {
    const { store, root, scratchDir } = this.#objects.place
    const path = join(scratchDir, engineTempName())
    try {
      await store.get(hintKey(root), path, { length: 32, ...waiting(this.signal) })
      const generation = Number(readFileSync(path, 'utf8'))
      return Number.isSafeInteger(generation) && generation > 0 ? generation : undefined
    } catch (error) {
      if (isNexusError(error, 'NOT_FOUND')) return undefined
      throw error
    } finally {
      rmSync(path, { force: true })
    }
  }

  /** Leaves a generation that exists for those who search the head. */
  async leaveHint(generation: number): Promise<void> {
    const { root } = this.#objects.place
    await this.#objects.put(hintKey(root), Buffer.from(String(generation)), this.signal)
  }

  /**
   * Refuses to send what no reader would take: a head that can't be read stays the head, and keeps the session from ever being
   * booted again.
   *
   * @throws NexusError what a reader says of it
   */
  check({ generation, bytes, digest }: PreparedCommit): void {
    const object = this.#objects.nameOf(generation)
    const head = decodeHead(bytes, { object, sessionId: this.#objects.place.sessionId, generation })
    if (head === 'short' || head.headerSha256 !== digest) {
      throw new NexusError('INTERNAL', `the header of ${object} is not what was made`, {
        op: 'durability.snapshot',
        key: object,
      })
    }
  }

  async create({ generation, bytes }: PreparedCommit): Promise<boolean> {
    return await this.#objects.create(this.#objects.nameOf(generation), bytes, this.signal)
  }

  async flush(): Promise<void> {
    await this.#objects.place.store.flush(waiting(this.signal))
  }
}

function factsOf({ header, headerSha256 }: ReadHeader): CommitFacts {
  const { generation, kind, parent, owner, nonce, completed_at: completedAt } = header
  return {
    generation,
    digest: headerSha256,
    kind,
    instanceId: owner.instance_id,
    host: owner.host,
    pid: owner.pid,
    nonce,
    completedAtMs: Date.parse(completedAt),
    ...(parent === undefined ? {} : { parent: { generation: parent.generation, digest: parent.header_sha256 } }),
  }
}
