import { join } from 'node:path'
import { silentLogger, type Logger } from '@nexus/host'
import Database from 'better-sqlite3'
import { expect, onTestFinished } from 'vitest'
import { checkpointConnection } from '../../src/copy/checkpoint.ts'
import { Copier } from '../../src/copy/copier.ts'
import { processCopyPool } from '../../src/copy/copy-pool.ts'
import type { Connection } from '../../src/open/connection.ts'
import { CapturedDatabase } from '../../src/pages/captured-database.ts'
import type { DatabaseInstant } from '../../src/pages/instant.ts'
import type { PageStep } from '../../src/pages/page-steps.ts'
import { tempDir } from '../temp-dir.ts'

/** What a case is made with. */
export interface CaseOptions {
  readonly pageSize?: number
  readonly autoVacuum?: 'none' | 'full' | 'incremental'
  /** Default 0: every database is pinned. */
  readonly smallBytes?: number
  readonly logger?: Logger
}

/** A database, its capture, and a consumer that keeps the image up to date from what each instant says has changed. */
export class CaptureCase {
  readonly dir: string = tempDir()
  readonly path: string = join(this.dir, 'store.db')
  /** The plugin's connection. */
  readonly db: Connection
  readonly captured: CapturedDatabase
  /** Called at each step of a capture. */
  onStep: (step: PageStep) => void = () => undefined
  image: Buffer = Buffer.alloc(0)
  readonly #pins: Connection[] = []
  #since: string | undefined
  #copies = 0

  constructor({ pageSize = 4096, autoVacuum = 'none', smallBytes = 0, logger = silentLogger }: CaseOptions = {}) {
    this.db = this.connect()
    this.db.pragma(`page_size = ${pageSize}`)
    this.db.pragma(`auto_vacuum = ${autoVacuum}`)
    this.db.pragma('journal_mode = WAL')
    this.db.exec('CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB NOT NULL)')
    const copies = new Copier({ busyTimeoutMs: 2000, pool: processCopyPool(), logger, failpoint: undefined })
    const checkpoints = this.connect()
    // In place and without syncing, so that a case takes milliseconds. The worker's are another test's.
    const copier: Pick<Copier, 'run'> = {
      run: async (job, signal) =>
        job.kind === 'checkpoint'
          ? { sizeBytes: 0, checkpoint: checkpointConnection(checkpoints, 0, job.keepWal) }
          : copies.run(job, signal),
    }
    let taken = 0
    this.captured = new CapturedDatabase(
      { pluginId: 'plugin', place: { root: this.dir, path: this.path } },
      {
        copier,
        logger,
        smallBytes,
        canPin: () => true,
        newId: () => `instant-${++taken}`,
        step: (step) => this.onStep(step),
        connect: () => this.#connectPin(),
      },
    )
    onTestFinished(() => this.captured.close())
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
    this.#pins.push(db)
    return db
  }

  /** Takes the database, without reading anything of it. */
  take(): Promise<DatabaseInstant> {
    const since = new Map(this.#since === undefined ? [] : [[this.path, this.#since]])
    return this.captured.capture({ since, dir: join(this.dir, `copies-${++this.#copies}`), signal: undefined })
  }

  /** What SQLite serializes inside the read transaction that holds the instant. */
  serialized(): Buffer {
    const holding = this.#pins.filter((db) => db.open && db.inTransaction)
    expect(holding).toHaveLength(1)
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

  /** Captures, and compares with what SQLite sees in the same read transaction: the image, and where the image is wrong. */
  async captureAndCompare(): Promise<DatabaseInstant> {
    const instant = await this.take()
    const expected = this.serialized()
    await this.read(instant)
    // What others did while it was read must not show, to SQLite as little as to us.
    expect(differingPages(this.serialized(), expected, instant.pageSize)).toEqual([])
    expect(differingPages(this.image, expected, instant.pageSize)).toEqual([])
    expect(this.image.length).toBe(expected.length)
    instant.release()
    return instant
  }
}

/** The numbers of the pages in which two images differ. */
export function differingPages(a: Buffer, b: Buffer, pageSize: number): number[] {
  const pages: number[] = []
  for (let at = 0; at < Math.max(a.length, b.length); at += pageSize) {
    if (!a.subarray(at, at + pageSize).equals(b.subarray(at, at + pageSize))) pages.push(at / pageSize + 1)
  }
  return pages
}
