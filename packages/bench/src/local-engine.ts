import { join } from 'node:path'
import { Engine, silentLogger, type ConfigInput, type EngineOptions } from '@nexus/engine'

/** How an engine of a bench is set up. */
export interface BenchEngineOptions {
  /** Data root of the engine's host. */
  root: string
  core?: ConfigInput['core']
  journal?: ConfigInput['journal']
  engine?: EngineOptions
}

/** A booted engine with everything at its defaults, its log dropped, below a root of its own. */
export async function bootEngine(options: BenchEngineOptions): Promise<Engine> {
  const engine = await prepareEngine(options)
  await engine.boot()
  return engine
}

/** The same, before its boot. */
export async function prepareEngine({ root, core, journal, engine }: BenchEngineOptions): Promise<Engine> {
  const config: ConfigInput = {
    core: { sessions: { root: join(root, 'sessions'), retention: 0 }, storage: { root }, ...core },
    ...(journal === undefined ? {} : { journal }),
  }
  return Engine.fromConfig(config, { logger: silentLogger, ...engine })
}
