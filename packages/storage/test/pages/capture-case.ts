import { join } from 'node:path'
import { silentLogger, type Logger } from '@nexus/host'
import { settle } from '@nexus/host/testing'
import Database from 'better-sqlite3'
import { onTestFinished } from 'vitest'
import { checkpointConnection } from '../../src/copy/checkpoint.ts'
import { Copier } from '../../src/copy/copier.ts'
import { processCopyPool } from '../../src/copy/copy-pool.ts'
import type { Connection } from '../../src/open/connection.ts'
import { CapturedDatabase, type CaptureContext } from '../../src/pages/captured-database.ts'
import type { DatabaseInstant } from '../../src/pages/instant.ts'
import type { PageStep } from '../../src/pages/pinned/page-steps.ts'
import { tempDir } from '../temp-dir.ts'

/** What a case is made with. */
export interface CaseOptions {
  readonly pageSize?: number
  readonly autoVacuum?: 'none' | 'full' | 'incremental'
  /** Default 0: every database is pinned. */
  readonly smallBytes?: number
  readonly logger?: Logger
  readonly journalMode?: 'WAL' | 'DELETE'
}

/** A database, its capture, and a consumer that keeps the image up to date from what each instant says has changed. */
export class CaptureCase {
  readonly dir: string = tempDir()
  readonly path: string = join(this.dir, 'store.db')
  /** The plugin's connection. */
  readonly db: Connection
  captured: CapturedDatabase
  /** Called at each step of a capture. */
  onStep: (step: PageStep) => void = () => undefined
  image: Buffer = Buffer.alloc(0)
  /** The copies that SQLite had to make. */
  readonly copies: ('here' | 'in a child')[] = []
  readonly #context: CaptureContext
  #pins: Connection[] = []
  #since: string | undefined
  #copies = 0

  constructor({
    pageSize = 4096,
    autoVacuum = 'none',
    smallBytes = 0,
    logger = silentLogger,
    journalMode = 'WAL',
  }: CaseOptions = {}) {
    this.db = this.connect()
    this.db.pragma(`page_size = ${pageSize}`)
    this.db.pragma(`auto_vacuum = ${autoVacuum}`)
    this.db.pragma(`journal_mode = ${journalMode}`)
    this.db.exec('CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB NOT NULL)')
    const copies = new Copier({ busyTimeoutMs: 20, pool: processCopyPool(), logger, failpoint: undefined })
    const checkpoints = this.connect()
    let taken = 0
    this.#context = {
      // In place and without syncing, so that a capture takes milliseconds. Workers and children have tests of their own.
      copier: {
        run: async (job, signal) => {
          if (job.kind === 'checkpoint')
            return { sizeBytes: 0, checkpoint: checkpointConnection(checkpoints, 0, job.keepWal) }
          this.copies.push(job.kind === 'foreign' && job.inChild ? 'in a child' : 'here')
          return copies.run(job.kind === 'foreign' ? { ...job, inChild: false } : job, signal)
        },
      },
      logger,
      smallBytes,
      canPin: () => true,
      newId: () => `instant-${++taken}`,
      step: (step) => this.onStep(step),
      connect: () => this.#connectPin(),
    }
    this.captured = this.#openCapture()
    onTestFinished(() => this.captured.close())
  }

  /** Begins anew, as after a restart of the engine: nothing is known of the database. */
  async restart(): Promise<void> {
    await this.captured.close()
    this.#pins = []
    this.captured = this.#openCapture()
  }

  #openCapture(): CapturedDatabase {
    return new CapturedDatabase({ pluginId: 'plugin', place: { root: this.dir, path: this.path } }, this.#context)
  }

  /** Another connection of the same program, without checkpoints of its own. It closes when the test ends. */
  connect(): Connection {
    const db = new Database(this.path, { timeout: 0 })
    db.pragma('wal_autocheckpoint = 0')
    db.pragma('synchronous = OFF')
    onTestFinished(() => void db.close())
    return db
  }

  #connectPin(): Connection {
    const db = new Database(this.path, { readonly: true, timeout: 0 })
    db.pragma('schema_version')
    this.#pins.push(db)
    return db
  }

  /** Takes the database, without reading anything of it. */
  take(): Promise<DatabaseInstant> {
    const since = new Map(this.#since === undefined ? [] : [[this.path, this.#since]])
    return this.captured.capture({ since, dir: join(this.dir, `copies-${++this.#copies}`), signal: undefined })
  }

  /** Waits until the capture has done what it does after an instant was released. */
  async settled(): Promise<void> {
    // Each of its promises needs a turn or two.
    for (let turns = 0; turns < 3; turns++) await settle()
  }

  /** What SQLite serializes inside the read transaction that holds the instant. */
  serialized(): Buffer {
    const holding = this.#pins.filter((db) => db.open && db.inTransaction)
    if (holding.length !== 1) throw new Error(`${holding.length} read transactions hold the instant, not one`)
    return (holding[0] as Connection).serialize()
  }

  /** Brings the image up to date, reading what the instant says has changed and nothing else. */
  async read(instant: DatabaseInstant): Promise<void> {
    const { pageSize, pageCount, kind, changed } = instant
    const next = Buffer.alloc(pageSize * pageCount)
    if (kind !== 'full') this.image.copy(next)
    for (const { first, count } of changed) {
      const bytes = await instant.read((first - 1) * pageSize, count * pageSize)
      bytes.copy(next, (first - 1) * pageSize)
    }
    this.image = next
    this.#since = instant.id
  }

  /** Captures, and throws when anything is other than what SQLite sees in the same read transaction. */
  async captureAndCompare(): Promise<DatabaseInstant> {
    const instant = await this.take()
    const expected = this.serialized()
    await this.read(instant)
    // Pages that were not named can be read as well.
    const all = await instant.read(0, expected.length)
    assertSame('the image from increments', this.image, expected, instant)
    assertSame('the image as read', all, expected, instant)
    assertSame('what SQLite sees while others go on', this.serialized(), expected, instant)
    instant.release()
    return instant
  }
}

function assertSame(what: string, found: Buffer, expected: Buffer, { pageSize, kind }: DatabaseInstant): void {
  if (found.equals(expected)) return
  const pages = differingPages(found, expected, pageSize)
  throw new Error(
    `${what} (${kind}) differs in pages ${pages.join(', ')}; ${found.length} bytes, not ${expected.length}`,
  )
}

/** The numbers of the pages in which two images differ. */
export function differingPages(a: Buffer, b: Buffer, pageSize: number): number[] {
  const pages: number[] = []
  for (let at = 0; at < Math.max(a.length, b.length); at += pageSize) {
    if (!a.subarray(at, at + pageSize).equals(b.subarray(at, at + pageSize))) pages.push(at / pageSize + 1)
  }
  return pages
}
