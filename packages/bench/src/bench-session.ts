import type { Engine } from '@nexus/engine'
import type { Backend } from '@nexus/objectstore'
import { fillDatabase } from './database.ts'
import { elapsedMs } from './measure.ts'
import { bootEngine, type BenchEngineOptions } from './local-engine.ts'
import { growTo, type SessionShape } from './session-shape.ts'

const PLUGIN = 'bench.agent'

/** Where a session of a bench is stored. */
export interface BenchSessionOptions extends Pick<BenchEngineOptions, 'root' | 'core' | 'journal'> {
  backend?: Backend
}

/** A session with an agent's work in it, one turn after another. */
export class BenchSession {
  readonly engine: Engine
  #turns = 0
  #failure: string | undefined
  #objects = 0

  private constructor(engine: Engine) {
    this.engine = engine
    engine.bus.subscribe('session.snapshot.result', ({ payload }) => {
      this.#failure = payload.ok ? undefined : (payload.error ?? 'a snapshot failed')
      this.#objects = payload.objects
    })
  }

  static async open({ backend, ...options }: BenchSessionOptions): Promise<BenchSession> {
    const engine = await bootEngine({ ...options, ...(backend === undefined ? {} : { engine: { backend } }) })
    fillDatabase(engine.storage.open('session', PLUGIN).db, 0)
    return new BenchSession(engine)
  }

  /** The plugin's database. */
  get databasePath(): string {
    return this.engine.storage.open('session', PLUGIN).path
  }

  /** Fills the session up and commits it. Returns the milliseconds of the commit, which stores all of it. */
  async grow(shape: SessionShape): Promise<number> {
    // The first turns make files of their own.
    for (let turn = 0; turn < 2; turn++) await this.turn()
    await growTo(shape, this.engine.session, this.#objects)
    await this.work()
    const committedMs = await elapsedMs(() => this.endTurn())
    if (this.#objects !== shape.objects) throw new Error(`the session has ${this.#objects} objects: ${shape.what}`)
    return committedMs
  }

  /** Begins a turn and writes a row; with `speak`, also a line of conversation. */
  async work({ speak = true }: { speak?: boolean } = {}): Promise<void> {
    const { bus, session, storage, sessionId } = this.engine
    const turn = ++this.#turns
    await bus.emit('agent.turn.start', { turn_id: `turn-${turn}`, session_id: sessionId })
    if (!speak) return
    await session.appendFile('context/conversation.jsonl', `{"role":"user","content":"turn ${turn}"}\n`)
    storage.open('session', PLUGIN).db.prepare('UPDATE items SET body = ? WHERE id = 1').run(`turn ${turn}`)
  }

  /** Ends the turn: resolves when it is committed, where there is a store. */
  async endTurn(): Promise<void> {
    const { bus, sessionId } = this.engine
    await bus.emit('agent.turn.end', { turn_id: `turn-${this.#turns}`, session_id: sessionId })
    if (this.#failure !== undefined) throw new Error(`the turn was not committed: ${this.#failure}`)
  }

  async turn(): Promise<void> {
    await this.work()
    await this.endTurn()
  }
}
