import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createMemoryBackend, type MemoryBackend } from '@nexus/objectstore-memory-test'
import { Engine, silentLogger, type ConfigInput, type EngineOptions, type Plugin } from '../src/index.ts'

/** Answers an input with one line of conversation and one row, and ends the turn. */
export const scribe: Plugin = {
  id: 'test.scribe',
  name: 'Scribe',
  version: '1.0.0',
  init(context) {
    const { bus, session } = context
    const { db } = context.storage('session')
    db.exec('CREATE TABLE IF NOT EXISTS lines (text TEXT)')
    bus.subscribe('io.input', async (event) => {
      const turn = { turn_id: event.id, session_id: session.id }
      await event.emit('agent.turn.start', turn)
      await session.appendFile('context/conversation.jsonl', `${event.payload.content}\n`)
      db.prepare('INSERT INTO lines VALUES (?)').run(event.payload.content)
      await event.emit('agent.turn.end', turn)
    })
  },
}

export interface HostOptions extends EngineOptions {
  /** Default true: the lab's backend is used. */
  stored?: boolean
  core?: ConfigInput['core']
  config?: Omit<ConfigInput, 'core'>
}

/** One bucket and any number of hosts with data roots of their own. */
export class EngineLab {
  readonly dir: string = mkdtempSync(join(tmpdir(), 'nexus-engine-'))
  readonly backend: MemoryBackend = createMemoryBackend()
  readonly #engines: Engine[] = []

  sessionsRoot(host: string): string {
    return join(this.dir, host, 'sessions')
  }

  sessionDir(host: string, id: string): string {
    return join(this.sessionsRoot(host), id)
  }

  /** An engine that hasn't booted; stopped by {@link close}. */
  async engine(host: string, options: HostOptions = {}): Promise<Engine> {
    const { stored = true, core = {}, config = {}, ...rest } = options
    const root = join(this.dir, host)
    const engine = await Engine.fromConfig(
      { ...config, core: { sessions: { root: join(root, 'sessions'), retention: 0 }, storage: { root }, ...core } },
      { plugins: [scribe], logger: silentLogger, ...(stored ? { backend: this.backend } : {}), ...rest },
    )
    this.#engines.push(engine)
    return engine
  }

  async booted(host: string, options: HostOptions = {}): Promise<Engine> {
    const engine = await this.engine(host, options)
    await engine.boot()
    return engine
  }

  async close(): Promise<void> {
    for (const engine of this.#engines) await engine.stop().catch(() => undefined)
    rmSync(this.dir, { recursive: true, force: true })
  }
}

export async function history(engine: Engine): Promise<string> {
  return (await engine.session.readFile('context/conversation.jsonl')).toString()
}

export function rows(engine: Engine): unknown[] {
  return engine.storage.open('session', scribe.id).db.prepare('SELECT text FROM lines ORDER BY rowid').pluck().all()
}
