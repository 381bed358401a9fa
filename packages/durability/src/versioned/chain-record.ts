import type { Failpoint } from '@nexus/host'
import type { CommitId } from './core/commit-facts.ts'
import { recordOf, type SessionRecord, type UploadedPack } from './core/session-record.ts'
import { packFile } from './core/versioned-keys.ts'
import { readSessionRecord, SessionRecordFile } from './record-file.ts'

/** The record of the tree at a session's path, opened when something is to be written to it. */
export class ChainRecord {
  readonly #treeDir: string
  readonly #failpoint: Failpoint
  #file: SessionRecordFile | undefined
  #opening: Promise<SessionRecordFile> | undefined
  /** Packs that an earlier process noted, until the store was asked for them. */
  #inherited: ReadonlySet<UploadedPack> = new Set()

  constructor(treeDir: string, failpoint: Failpoint) {
    this.#treeDir = treeDir
    this.#failpoint = failpoint
  }

  /** As it is now; undefined for a tree that has none. */
  get current(): SessionRecord | undefined {
    return this.#file?.current ?? readSessionRecord(this.#treeDir)
  }

  async note(attempt: CommitId): Promise<void> {
    await (await this.#open()).add({ attempt: { generation: attempt.generation, digest: attempt.digest } })
  }

  async notePack(pack: UploadedPack): Promise<void> {
    await (await this.#open()).add({ pack })
  }

  /** May be lost: the attempt is noted, and counts just the same. */
  async committed(commit: CommitId, isUseful: (pack: UploadedPack) => boolean): Promise<void> {
    const file = await this.#open()
    const packs = file.current.packs.filter(isUseful)
    await file.add({ committed: { generation: commit.generation, digest: commit.digest }, packs }, { durable: false })
  }

  /** The tree belongs to this boot of the machine. */
  async adopt(bootId: string): Promise<void> {
    const file = await this.#open()
    if (file.current.bootId !== bootId) await file.replace({ ...file.current, bootId })
  }

  async dropPacks(): Promise<void> {
    await this.#keepPacks(() => false)
  }

  /** What a commit may take from packs that were uploaded before. */
  async packs(): Promise<readonly UploadedPack[]> {
    return (await this.#open()).current.packs
  }

  /**
   * Drops packs of an earlier process that the store lacks: it noted what it had put, and a machine that went down with it may
   * have taken that along.
   *
   * @param sizes what the store has, by the last segment of the keys
   */
  async provePacks(sizes: () => Promise<ReadonlyMap<string, number>>): Promise<void> {
    const inherited = this.#inherited
    if (!(await this.packs()).some((pack) => inherited.has(pack))) return
    const found = await sizes()
    await this.#keepPacks((pack) => !inherited.has(pack) || found.get(packFile(pack.name)) === pack.sizeBytes)
    this.#inherited = new Set()
  }

  /** The tree counts as never stored. */
  async forget(): Promise<void> {
    const file = await this.#open()
    await file.replace(recordOf(file.current.bootId, undefined))
  }

  /** The tree may be replaced. */
  async close(): Promise<void> {
    const file = this.#file
    this.#file = undefined
    await file?.close()
  }

  async #keepPacks(isKept: (pack: UploadedPack) => boolean): Promise<void> {
    const file = await this.#open()
    const packs = file.current.packs.filter(isKept)
    if (packs.length < file.current.packs.length) await file.replace({ ...file.current, packs })
  }

  /** Opened once: opening puts a new file in its place, and lines that go to the one before are lost. */
  async #open(): Promise<SessionRecordFile> {
    if (this.#file !== undefined) return this.#file
    this.#opening ??= SessionRecordFile.open(this.#treeDir, { failpoint: this.#failpoint })
      .then((file) => {
        this.#inherited = new Set(file.current.packs)
        return (this.#file = file)
      })
      .finally(() => (this.#opening = undefined))
    return await this.#opening
  }
}
