import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ConfigInput, Engine, type EngineOptions, type NexusEvent, type Plugin, silentLogger } from '@nexus/engine'
import { onTestFinished } from 'vitest'

/** What an engine of a test gets. */
export interface LabOptions extends Omit<EngineOptions, 'plugins'> {
  plugins: readonly Plugin[]
  /** The blocks of the plugins, by id. */
  blocks?: Readonly<Record<string, unknown>>
  core?: ConfigInput['core']
  engine?: ConfigInput['engine']
}

/** A data root of its own, removed after the test, and engines in it. */
export class Lab {
  readonly dir: string = mkdtempSync(join(tmpdir(), 'nexus-plugins-'))
  readonly #engines: Engine[] = []

  constructor() {
    onTestFinished(async () => {
      for (const engine of this.#engines) await engine.stop().catch(() => undefined)
      rmSync(this.dir, { recursive: true, force: true })
    })
  }

  /** A running engine, stopped after the test. `host` names its data root. */
  async engine(
    { plugins, blocks = {}, core, engine: engineBlock, ...rest }: LabOptions,
    host = 'host',
  ): Promise<Engine> {
    const root = join(this.dir, host)
    const engine = await Engine.fromConfig(
      {
        core: { sessions: { root: join(root, 'sessions'), retention: 0 }, storage: { root }, ...core },
        ...(engineBlock === undefined ? {} : { engine: engineBlock }),
        plugins: blocks,
      },
      { plugins, logger: silentLogger, ...rest },
    )
    this.#engines.push(engine)
    await engine.boot()
    return engine
  }
}

/** The payloads of every event of a type, from now on. */
export function collect<T = Record<string, unknown>>(engine: Engine, type: string): T[] {
  const found: T[] = []
  engine.bus.subscribe(type, ({ payload }: NexusEvent) => void found.push(payload as T))
  return found
}

/** The conversation of a session as it lies on the disk. */
export async function conversation(engine: Engine): Promise<Record<string, unknown>[]> {
  const text = (await engine.session.readFile('context/conversation.jsonl')).toString()
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

/** Resolves when a condition holds. */
export async function until(condition: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 20_000; !condition();) {
    if (Date.now() > deadline) throw new Error('the condition did not come to hold')
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
