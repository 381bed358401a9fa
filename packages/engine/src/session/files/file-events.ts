import { lstatSync } from 'node:fs'
import { basename } from 'node:path'
import { isDatabaseName, neverCrosses } from '@nexus/durability/names'
import type { Logger, TreeRoot } from '@nexus/host'

/** What file events go out on; the event bus fits. */
export interface EmitTarget {
  emit(type: string, payload: unknown, opts?: { source?: string }): Promise<void>
}

/**
 * What a write did to a file. `offset > 0`: a pure append, `offset + bytesAdded` is the whole size and no byte before
 * `offset` changed. `offset === 0`: treat the file as rewritten, `bytesAdded` is the whole size.
 */
export interface FileChange {
  /** Session-relative, with `/`. */
  path: string
  created: boolean
  sizeBytes: number
  offset: number
  bytesAdded: number
}

interface FilePayload {
  _schema_version: number
  session_id: string
  path: string
  size?: number
  offset?: number
  bytes_added?: number
}

const SOURCE = 'nexus.session'

/** Puts file events on the bus of a session, once there is one. Never throws: the write it tells of has happened. */
export class FileAnnouncer {
  readonly #sessionId: string
  readonly #root: TreeRoot
  readonly #logger: Logger
  #bus: EmitTarget | undefined

  constructor(sessionId: string, root: TreeRoot, bus: EmitTarget | undefined, logger: Logger) {
    this.#sessionId = sessionId
    this.#root = root
    this.#bus = bus
    this.#logger = logger
  }

  attach(bus: EmitTarget): void {
    this.#bus = bus
  }

  /** Announces a change. The event is on its way when this returns; the promise ends with its handlers. */
  changed(change: FileChange, via?: EmitTarget): Promise<void> {
    const type = change.created ? 'session.file.created' : 'session.file.updated'
    return this.#emit(via, type, {
      _schema_version: 2,
      session_id: this.#sessionId,
      path: change.path,
      size: change.sizeBytes,
      offset: change.offset,
      bytes_added: change.bytesAdded,
    })
  }

  deleted(path: string, via?: EmitTarget): Promise<void> {
    return this.#emit(via, 'session.file.deleted', { _schema_version: 1, session_id: this.#sessionId, path })
  }

  /** Announces a whole-file write that somebody else made. Silent for what isn't a file of the session or never crosses. */
  wrote(absPath: string, existed: boolean): Promise<void> {
    const found = this.#find(absPath)
    if (found === undefined) return Promise.resolve()
    const { path, sizeBytes } = found
    return this.changed({ path, created: !existed, sizeBytes, offset: 0, bytesAdded: sizeBytes })
  }

  /**
   * Announces an append that somebody else made, right after it: the file was created by it when nothing lies before the
   * new bytes. A file that is now shorter than what was added was rewritten meanwhile, and is announced as that.
   */
  appended(absPath: string, bytesAdded: number): Promise<void> {
    const found = this.#find(absPath)
    if (found === undefined) return Promise.resolve()
    const { path, sizeBytes } = found
    const offset = sizeBytes - bytesAdded
    const exact = Number.isSafeInteger(bytesAdded) && bytesAdded >= 0 && offset >= 0
    if (!exact) return this.changed({ path, created: false, sizeBytes, offset: 0, bytesAdded: sizeBytes })
    return this.changed({ path, created: offset === 0, sizeBytes, offset, bytesAdded })
  }

  #find(absPath: string): { path: string; sizeBytes: number } | undefined {
    if (this.#bus === undefined) return undefined
    const given = this.#root.relativize(absPath)
    if (given === undefined) return undefined
    try {
      const slot = this.#root.openSlot(given)
      try {
        const silent = neverCrosses(slot.relPath) || isDatabaseName(basename(slot.relPath))
        if (silent || slot.stats?.isFile() !== true) return undefined
        return { path: slot.relPath, sizeBytes: lstatSync(slot.path).size }
      } finally {
        slot.close()
      }
    } catch {
      // Gone again, or a link leads out: nothing in the session to tell of. A plugin may call this unconditionally.
      return undefined
    }
  }

  async #emit(via: EmitTarget | undefined, type: string, payload: FilePayload): Promise<void> {
    if (this.#bus === undefined) return
    try {
      await (via ?? this.#bus).emit(type, payload, { source: SOURCE })
    } catch (error) {
      // The bytes are on disk and the next snapshot walks over them: telling the writer that it failed would be untrue.
      this.#logger.warn({ err: error, session_id: this.#sessionId, path: payload.path, type }, 'a file event was lost')
    }
  }
}
