import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type ConfigInput,
  Engine,
  isNexusError,
  type Logger,
  NexusError,
  type Plugin,
  type PublishedEvalRun,
  publishEvalRun,
  silentLogger,
} from '@nexus/engine'
import { evalCase, type EvalVerdict } from './eval-case.ts'

/** One case: what the agent is asked, and what is expected of it. */
export interface EvalCaseInput {
  /** A directory of the run is called so: letters, digits, `_` and `-`. */
  name: string
  inputs: readonly string[]
  /** The `expect` of `nexus.eval.case`. */
  expect: Readonly<Record<string, unknown>>
}

/** An evaluation run. */
export interface EvalRunOptions {
  runId: string
  /** Where its files are written; the sessions go to `_sessions` below it. */
  dir: string
  cases: readonly EvalCaseInput[]
  /** The configuration of the agent; where sessions lie, and an object store of it, are the run's own. */
  config?: ConfigInput
  /** The plugins of the agent, made anew for every case. */
  plugins: () => readonly Plugin[]
  /** Where the run is published; absent: nowhere. */
  store?: Parameters<typeof publishEvalRun>[0]
  logger?: Logger
}

/** How one case went. */
export interface EvalCaseResult extends EvalVerdict {
  session_id: string
  turn_count: number
  tokens_used: number
  cost_usd: number
  duration_ms: number
}

/** How a run went. */
export interface EvalRunResult {
  passed: boolean
  cases: EvalCaseResult[]
  /** Absent without a store. */
  published?: PublishedEvalRun
}

/**
 * Runs cases one after the other, each in a session of its own, writes `summary.json` and for each case `<name>/result.json` and
 * `<name>/conversation.jsonl`, and publishes the run. A case whose engine can't be booted rejects.
 *
 * @throws NexusError `INVALID_ARGUMENT` for a wrong name, before anything is run, and wrong expectations, before their case is; see {@link publishEvalRun}
 * @see docs/guides/standard-plugins.md
 */
export async function runEval(options: EvalRunOptions): Promise<EvalRunResult> {
  const { dir, runId, store, logger = silentLogger } = options
  for (const { name } of options.cases) validateName(name)
  const cases: EvalCaseResult[] = []
  for (const each of options.cases) cases.push(await runCase(each, options, logger))
  const result: EvalRunResult = { passed: cases.every(({ passed }) => passed), cases }
  await writeJson(join(dir, 'summary.json'), { run_id: runId, ...result })
  return store === undefined ? result : { ...result, published: await publishEvalRun(store, dir, runId, { logger }) }
}

function validateName(name: string): void {
  if (/^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/.test(name)) return
  throw new NexusError(
    'INVALID_ARGUMENT',
    `a case can't be named ${JSON.stringify(name)}: use letters, digits, _ and -`,
    {
      op: 'eval.run',
      key: name,
    },
  )
}

async function runCase(
  { name, inputs, expect }: EvalCaseInput,
  { dir, config = {}, plugins }: EvalRunOptions,
  logger: Logger,
): Promise<EvalCaseResult> {
  const { object_store: _store, sessions, ...core } = config.core ?? {}
  const root = join(dir, '_sessions')
  const watch = evalCase()
  const engine = await Engine.fromConfig(
    {
      ...config,
      core: { ...core, sessions: { ...sessions, root }, storage: { ...core.storage, root: join(root, '_storage') } },
      plugins: { ...config.plugins, 'nexus.eval.case': { name, expect } },
    },
    { plugins: [...plugins(), watch.plugin], logger },
  )
  const began = performance.now()
  await engine.boot()
  try {
    for (const input of inputs) await engine.submitInput(input)
    const { turnCount, tokensUsed, costUsd } = engine.session.meta()
    const result: EvalCaseResult = {
      ...(await watch.verdict()),
      session_id: engine.sessionId,
      turn_count: turnCount,
      tokens_used: tokensUsed,
      cost_usd: costUsd,
      duration_ms: Math.round(performance.now() - began),
    }
    await mkdir(join(dir, name), { recursive: true })
    await writeJson(join(dir, name, 'result.json'), result)
    await copyConversation(engine, join(dir, name, 'conversation.jsonl'))
    return result
  } finally {
    await engine.stop()
  }
}

async function copyConversation({ session }: Engine, to: string): Promise<void> {
  try {
    await writeFile(to, await session.readFile('context/conversation.jsonl'))
  } catch (error) {
    // An agent without the memory keeps none.
    if (!isNexusError(error, 'NOT_FOUND')) throw error
  }
}

async function writeJson(path: string, value: object): Promise<void> {
  await writeFile(path, `${JSON.stringify(value, undefined, 2)}\n`)
}
