import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isNexusError } from '@nexus/errors'
import { engineTempName } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import { commitKey, packsKey } from '../core/versioned-keys.ts'
import { type CommitParts, decodeCommit, decodeHead, type ReadHeader } from '../format/commit-object.ts'
import { DamagedObjectError, type ObjectRange } from '../format/bytes/damage.ts'
import { decodeTombstone, isTombstone } from '../format/tombstone.ts'

/** Where the objects of one session lie. */
export interface SessionPlace {
  store: ObjectStore
  sessionId: string
  /** Prefix of everything: `sessions/<id>.v`. */
  root: string
  /** An existing directory for what is on its way; nothing stays in it. */
  scratchDir: string
}

/** What lies under the number of a commit. Damage is thrown. */
export type FoundCommit = { is: 'commit'; head: ReadHeader } | { is: 'tombstone'; atMs: number } | { is: 'missing' }

/** A commit whose bytes are all there, and every one of them right. */
export interface WholeCommit extends ReadHeader, CommitParts {
  bytes: Buffer
}

// Most headers are a few KiB.
const HEAD_BYTES = 64 * 1024

/** Reads the objects of one session. All methods reject with what the store says; what is damaged is `CORRUPT`. */
export class SessionObjects {
  readonly place: SessionPlace

  constructor(place: SessionPlace) {
    this.place = place
  }

  /** The name of a commit, as tables of packs have it. */
  nameOf(generation: number): string {
    return commitKey(this.place.root, generation).slice(this.place.root.length + 1)
  }

  /** What a number holds, by the beginning of its object. */
  async readHead(generation: number, signal?: AbortSignal): Promise<FoundCommit> {
    const begin = await this.#get(generation, HEAD_BYTES, signal)
    if (begin === undefined) return { is: 'missing' }
    const expected = this.#expected(generation)
    if (isTombstone(begin)) return { is: 'tombstone', atMs: decodeTombstone(begin, expected) }
    const head = begin.length < HEAD_BYTES ? decodeCommit(begin, expected) : decodeHead(begin, expected)
    if (head !== 'short') return { is: 'commit', head }
    const whole = await this.readWhole(generation, signal)
    return whole === undefined ? { is: 'missing' } : { is: 'commit', head: whole }
  }

  /** A whole commit, which is never larger than a few MiB; undefined where there is a tombstone, or nothing. */
  async readWhole(generation: number, signal?: AbortSignal): Promise<WholeCommit | undefined> {
    const bytes = await this.#get(generation, undefined, signal)
    if (bytes === undefined || isTombstone(bytes)) return undefined
    return { ...decodeCommit(bytes, this.#expected(generation)), bytes }
  }

  /**
   * A commit whose header is right, whatever became of the rest; undefined where there is a tombstone, or nothing. For what
   * checks the digest of every part that it takes.
   */
  async readDamaged(generation: number, signal?: AbortSignal): Promise<WholeCommit | undefined> {
    const bytes = await this.#get(generation, undefined, signal)
    if (bytes === undefined || isTombstone(bytes)) return undefined
    const head = decodeHead(bytes, this.#expected(generation))
    if (head !== 'short') return { ...head, payloadBytes: 0, pagesBytes: 0, bytes }
    const range = { object: this.nameOf(generation), offset: 0, length: bytes.length }
    throw new DamagedObjectError(range, 'its header was cut')
  }

  /**
   * Bytes of an object, all of them.
   *
   * @returns undefined when the object is gone, or is a tombstone by now
   */
  async readRange({ object, offset, length }: ObjectRange, signal?: AbortSignal): Promise<Buffer | undefined> {
    return await this.#read(`${this.place.root}/${object}`, { offset, length }, signal)
  }

  /** Sizes of the packs that are there, by the last segment of their keys. */
  async packSizes(signal?: AbortSignal): Promise<Map<string, number>> {
    const listed = await this.place.store.list(packsKey(this.place.root), waiting(signal))
    return new Map(listed.map(({ key, size }) => [key.slice(key.lastIndexOf('/') + 1), size]))
  }

  /** Creates an object if its name is free. */
  async create(name: string, bytes: Uint8Array, signal?: AbortSignal): Promise<boolean> {
    return await this.#send(bytes, (path) =>
      this.place.store.putIfAbsent(`${this.place.root}/${name}`, path, waiting(signal)),
    )
  }

  /** Puts the object of a key, whatever it holds by now. */
  async put(key: string, bytes: Uint8Array, signal?: AbortSignal): Promise<void> {
    await this.#send(bytes, (path) => this.place.store.put(key, path, waiting(signal)))
  }

  #get(generation: number, length: number | undefined, signal: AbortSignal | undefined): Promise<Buffer | undefined> {
    return this.#read(commitKey(this.place.root, generation), length === undefined ? {} : { length }, signal)
  }

  async #read(
    key: string,
    range: { offset?: number; length?: number },
    signal: AbortSignal | undefined,
  ): Promise<Buffer | undefined> {
    const path = this.#scratch()
    try {
      await this.place.store.get(key, path, { ...range, ...waiting(signal) })
      return readFileSync(path)
    } catch (error) {
      if (isNexusError(error, 'NOT_FOUND')) return undefined
      throw error
    } finally {
      rmSync(path, { force: true })
    }
  }

  #expected(generation: number): { object: string; sessionId: string; generation: number } {
    return { object: this.nameOf(generation), sessionId: this.place.sessionId, generation }
  }

  async #send<T>(bytes: Uint8Array, send: (path: string) => Promise<T>): Promise<T> {
    const path = this.#scratch()
    try {
      writeFileSync(path, bytes, { mode: 0o600 })
      return await send(path)
    } finally {
      rmSync(path, { force: true })
    }
  }

  #scratch(): string {
    return join(this.place.scratchDir, engineTempName())
  }
}

/** A signal as an option, absent where there is none. */
export function waiting(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal }
}
