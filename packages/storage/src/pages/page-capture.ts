import { randomUUID } from 'node:crypto'
import type { PluginDatabase } from '../snapshot/snapshot-databases.ts'
import { fromSqliteError } from '../open/sqlite-error.ts'
import { CapturedDatabase, type CaptureContext, type CaptureRequest } from './captured-database.ts'
import type { DatabaseInstant } from './instant.ts'

/** Takes the databases of one manager as of one instant each, and keeps what is known of each between two captures. */
export class PageCapture {
  readonly #context: CaptureContext
  readonly #databases = new Map<string, CapturedDatabase>()

  constructor(context: Omit<CaptureContext, 'newId'>) {
    // An id of another manager must not be taken for one of this.
    const run = randomUUID()
    let taken = 0
    this.#context = { ...context, newId: () => `${run}-${++taken}` }
  }

  /** All or none: when one fails, the others are released. */
  async capture(databases: readonly PluginDatabase[], request: CaptureRequest): Promise<DatabaseInstant[]> {
    const results = await Promise.allSettled(databases.map((database) => this.#of(database).capture(request)))
    const taken = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    const failedAt = results.findIndex(({ status }) => status === 'rejected')
    if (failedAt === -1 && request.signal?.aborted !== true) return taken
    for (const instant of taken) instant.release()
    request.signal?.throwIfAborted()
    const { pluginId, place } = databases[failedAt] as PluginDatabase
    const what = `The capture of the database of plugin ${pluginId} at ${place.path}`
    throw fromSqliteError((results[failedAt] as PromiseRejectedResult).reason, 'storage.capture', what, place.path)
  }

  /** Whether a pin keeps the WAL of a database, so that only this class can empty it. */
  isPinned(path: string): boolean {
    return this.#databases.get(path)?.isPinned === true
  }

  /** To be called every second or so. */
  tick(nowMs: number): void {
    for (const database of this.#databases.values()) database.tick(nowMs)
  }

  /** Releases every instant and every pin. */
  async close(): Promise<void> {
    await Promise.all([...this.#databases.values()].map((database) => database.close()))
    this.#databases.clear()
  }

  #of(database: PluginDatabase): CapturedDatabase {
    const { path } = database.place
    const known = this.#databases.get(path) ?? new CapturedDatabase(database, this.#context)
    this.#databases.set(path, known)
    return known
  }
}
