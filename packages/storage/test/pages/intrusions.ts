import type { Connection } from '../../src/open/connection.ts'
import { isBusy } from '../../src/open/sqlite-error.ts'
import type { CaptureCase } from './capture-case.ts'

/** What others do to a database while it is captured. One that meets a lock does nothing. */
export const INTRUSIONS = [
  'commit',
  'commit twice',
  'delete',
  'spill',
  'end spill',
  'roll spill back',
  'PASSIVE',
  'FULL',
  'RESTART',
  'TRUNCATE',
  'VACUUM',
  'old reader',
  'end old reader',
  'commit and PASSIVE',
  'TRUNCATE and commit',
  'another generation',
] as const

export type Intrusion = (typeof INTRUSIONS)[number]

/** The connections of others, as other processes would have them. */
export class Others {
  readonly #writer: Connection
  readonly #spiller: Connection
  readonly #reader: Connection
  readonly #checkpoints: Connection
  #round = 0

  constructor(test: CaptureCase) {
    this.#writer = test.connect()
    this.#spiller = test.connect()
    this.#reader = test.connect()
    this.#checkpoints = test.connect()
    // So small that a transaction writes uncommitted pages into the WAL.
    this.#spiller.pragma('cache_size = 2')
  }

  readonly #deeds: Record<Intrusion, () => void> = {
    commit: () => this.#change(),
    'commit twice': () => this.#all('commit', 'commit'),
    delete: () => void this.#writer.exec(`DELETE FROM rows WHERE id % 11 = ${this.#round++ % 11}`),
    spill: () => {
      if (this.#spiller.inTransaction) return
      this.#spiller.exec('BEGIN IMMEDIATE')
      this.#spiller.exec('UPDATE rows SET body = randomblob(length(body))')
    },
    'end spill': () => void (this.#spiller.inTransaction && this.#spiller.exec('COMMIT')),
    'roll spill back': () => void (this.#spiller.inTransaction && this.#spiller.exec('ROLLBACK')),
    PASSIVE: () => this.#checkpoint('PASSIVE'),
    FULL: () => this.#checkpoint('FULL'),
    RESTART: () => this.#checkpoint('RESTART'),
    TRUNCATE: () => this.#checkpoint('TRUNCATE'),
    VACUUM: () => void this.#writer.exec('VACUUM'),
    'old reader': () => {
      if (this.#reader.inTransaction) return
      this.#reader.exec('BEGIN')
      this.#reader.prepare('SELECT count(*) FROM rows').get()
    },
    'end old reader': () => void (this.#reader.inTransaction && this.#reader.exec('COMMIT')),
    'commit and PASSIVE': () => this.#all('commit', 'PASSIVE'),
    'TRUNCATE and commit': () => this.#all('TRUNCATE', 'commit'),
    // Where no pin forbids it, what is committed first is in neither the WAL nor the old file afterwards.
    'another generation': () => this.#all('commit', 'end old reader', 'PASSIVE', 'commit'),
  }

  do(intrusion: Intrusion): void {
    try {
      this.#deeds[intrusion]()
    } catch (error) {
      if (!isBusy(error)) throw error
    }
  }

  /** Nothing is open any more. */
  end(): void {
    this.#all('roll spill back', 'end old reader')
  }

  #all(...intrusions: Intrusion[]): void {
    for (const intrusion of intrusions) this.do(intrusion)
  }

  #change(): void {
    // Only one can write.
    if (this.#spiller.inTransaction) return this.do('end spill')
    this.#writer.exec(`UPDATE rows SET body = randomblob(length(body)) WHERE id % 5 = ${this.#round++ % 5};
      INSERT INTO rows (body) VALUES (randomblob(700));
      DELETE FROM rows WHERE id < (SELECT max(id) - 12 FROM rows)`)
  }

  #checkpoint(mode: string): void {
    this.#checkpoints.pragma(`wal_checkpoint(${mode})`)
  }
}
