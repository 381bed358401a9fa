import { randomUUID } from 'node:crypto'
import { basename, join, resolve } from 'node:path'
import type { Logger } from '@nexus/host'
import type { Copier } from '../copy/copier.ts'
import { isLarge } from '../copy/copy-task.ts'
import { fromSqliteError, isBusy } from '../open/sqlite-error.ts'
import type { PluginDatabase } from '../snapshot/snapshot-databases.ts'
import { HeldInstant, type DatabaseInstant } from './instant.ts'
import { copiedImage, serializedImage } from './plain-image.ts'
import type { PageImage } from './page-image.ts'

export interface CaptureRequest {
  /** By live path, the id of the instant that each database is compared with. */
  readonly since: ReadonlyMap<string, string>
  /** Where copies go that can't be done without. */
  readonly dir: string
  readonly signal: AbortSignal | undefined
}

/** Takes databases as of one instant each, page by page. */
export class PageCapture {
  readonly #copier: Copier
  readonly #logger: Logger
  // An id of another run must not be taken for one of this.
  readonly #run = randomUUID()
  #taken = 0

  constructor(copier: Copier, logger: Logger) {
    this.#copier = copier
    this.#logger = logger
  }

  /** All or none: when one fails, the others are released. */
  async capture(databases: readonly PluginDatabase[], request: CaptureRequest): Promise<DatabaseInstant[]> {
    const taken = await Promise.allSettled(databases.map((database) => this.#capture(database, request)))
    const failedAt = taken.findIndex(({ status }) => status === 'rejected')
    if (failedAt === -1) return taken.map((result) => (result as PromiseFulfilledResult<DatabaseInstant>).value)
    for (const result of taken) if (result.status === 'fulfilled') result.value.release()
    request.signal?.throwIfAborted()
    const { pluginId, place } = databases[failedAt] as PluginDatabase
    const what = `The capture of the database of plugin ${pluginId} at ${place.path}`
    throw fromSqliteError((taken[failedAt] as PromiseRejectedResult).reason, 'storage.capture', what, place.path)
  }

  async #capture(database: PluginDatabase, { dir, signal }: CaptureRequest): Promise<DatabaseInstant> {
    const image = await this.#plainImage(database, dir, signal)
    const { pluginId, place } = database
    const fields = { pluginId, path: place.path }
    return new HeldInstant({
      pluginId,
      livePath: place.path,
      id: `${this.#run}-${++this.#taken}`,
      difference: { kind: 'full', changed: image.pageCount === 0 ? [] : [{ first: 1, count: image.pageCount }] },
      image,
      onDistrust: (pages) =>
        this.#logger.error({ ...fields, pages }, 'pages had changed that a capture took for unchanged'),
      onRelease: () => undefined,
    })
  }

  async #plainImage(
    { pluginId, place }: PluginDatabase,
    dir: string,
    signal: AbortSignal | undefined,
  ): Promise<PageImage> {
    if (!isLarge(place.path)) {
      try {
        return serializedImage(place)
      } catch (error) {
        if (!isBusy(error)) throw error
      }
    }
    const destPath = join(resolve(dir), pluginId, basename(place.path))
    await this.#copier.run({ kind: 'foreign', place, destPath, alias: undefined }, signal)
    return copiedImage(destPath)
  }
}
