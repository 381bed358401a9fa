import { join } from 'node:path'
import { Engine, silentLogger, type StoreInput } from '@nexus/engine'
import { createScribe, HISTORY, SCRIBE_ID, type Errand } from './scribe.ts'
import { fingerprintTree, type TreeFingerprint } from './tree-fingerprint.ts'

/** A run of the engine on one host, as data: it may be started here or in a child process. */
export interface HostOrder {
  sessionId: string
  dataRoot: string
  store: StoreInput
  errands: Errand[]
}

/** What a session looks like to the suite. */
export interface SessionState {
  history: string
  /** What `io.history.replay` carried at this boot. */
  replayed: unknown[]
  tree: TreeFingerprint
  facts: unknown[]
  integrity: string
  sharedRows: number
  generation: number
  mixed: string[]
}

/** An engine of the suite that is up. */
export class ContractHost {
  readonly engine: Engine
  readonly #replayed: unknown[] = []
  readonly #mixed: string[] = []

  private constructor(engine: Engine) {
    this.engine = engine
    engine.bus.subscribe('io.history.replay', ({ payload }) => {
      this.#replayed.push(...payload.messages)
    })
    engine.bus.subscribe('session.hydrate.mixed', ({ payload }) => {
      this.#mixed.push(...payload.paths)
    })
  }

  /** Boots the session of the order: resumed where it exists. */
  static async boot({ sessionId, dataRoot, store }: Omit<HostOrder, 'errands'>): Promise<ContractHost> {
    const engine = await Engine.fromConfig(
      {
        core: {
          sessions: { root: join(dataRoot, 'sessions'), retention: 0, restart: 'discard' },
          storage: { root: dataRoot },
          object_store: { on_mixed: 'warn', ...store },
        },
      },
      { plugins: [createScribe()], logger: silentLogger, recallSessionId: sessionId, useConfigSnapshot: false },
    )
    const host = new ContractHost(engine)
    await engine.boot()
    return host
  }

  async run(errands: readonly Errand[]): Promise<void> {
    for (const errand of errands) await this.engine.submitInput(errand)
  }

  async state(): Promise<SessionState> {
    const { session, storage } = this.engine
    const { db } = storage.open('session', SCRIBE_ID)
    const shared = storage.open('app', SCRIBE_ID).db
    const hasShared = shared.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'shared'").get() !== undefined
    return {
      history: (await session.fileExists(HISTORY)) ? (await session.readFile(HISTORY)).toString() : '',
      replayed: this.#replayed,
      tree: fingerprintTree(session.dir),
      facts: db.prepare('SELECT * FROM facts ORDER BY n').all(),
      integrity: String(db.pragma('integrity_check', { simple: true })),
      sharedRows: hasShared ? Number(shared.prepare('SELECT count(*) FROM shared').pluck().get()) : 0,
      generation: this.engine.status().durability?.generation ?? 0,
      mixed: this.#mixed,
    }
  }
}
