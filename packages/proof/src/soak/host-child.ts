import process from 'node:process'
import { join } from 'node:path'
import { Engine, silentLogger } from '@nexus/engine'
import '@nexus/objectstore-fs'
import type { Turn } from './deed.ts'
import { createFastClock } from './fast-clock.ts'
import { FaultPlan, registerFaulty } from './faulty-backend.ts'
import type { BootOrder, HostCommand, HostMessage } from './host-protocol.ts'
import type { BootReport } from './judge-boot.ts'
import { takeView } from './take-view.ts'
import { createWorker, WORKER_ID } from './worker-plugin.ts'

// A host of the soak: boots and works as its parent says, and may die of it. Started by `HostProcess`.

/** Deadlines of 30 s become 1.5 s, a retry after a second comes after 50 ms. */
const CLOCK_FACTOR = 20
const MOST_REFUSALS = 60

/** Resolves when the parent has it, so that nothing that was said is lost in a kill. */
async function say(message: HostMessage): Promise<void> {
  await new Promise<void>((resolve) => {
    process.send?.(message, undefined, undefined, () => resolve())
  })
}

function sayTrouble(error: unknown): void {
  void say({ kind: 'trouble', error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
}

/** One run of one session. */
class Run {
  readonly engine: Engine
  readonly #plan: FaultPlan
  readonly #report: Pick<BootReport, 'setAside' | 'mixed'> = { setAside: false }
  #outages = 0
  #recoveries = 0

  /** @param treePath where the session's tree lies */
  constructor(engine: Engine, plan: FaultPlan, treePath: string) {
    this.engine = engine
    this.#plan = plan
    const { bus } = engine
    bus.subscribe('agent.turn.end', ({ payload }) => say({ kind: 'boundary', turnId: payload.turn_id }))
    bus.subscribe('session.snapshot.result', async ({ payload }) => {
      if (payload.ok) await say({ kind: 'committed' })
    })
    bus.subscribe('session.owner.lost', () => say({ kind: 'lost' }))
    bus.subscribe('session.local.stale', ({ payload }) => {
      this.#report.setAside ||= payload.kept_at !== treePath
    })
    bus.subscribe('session.hydrate.mixed', ({ payload: { generation, paths } }) => {
      this.#report.mixed = { generation, paths: [...paths] }
    })
    bus.subscribe('session.storage.degraded', () => void (this.#outages += 1))
    bus.subscribe('session.storage.recovered', () => void (this.#recoveries += 1))
  }

  async boot(): Promise<BootReport> {
    await this.engine.boot()
    const { durability } = this.engine.status()
    return { ...this.#report, view: await takeView(this.engine), undecided: durability?.undecided === true }
  }

  /** Gives the turns to the agent; under strict it waits until input is taken again. */
  async work(turns: readonly Turn[]): Promise<void> {
    for (const turn of turns) {
      let left = MOST_REFUSALS
      while (!(await this.engine.submitInput(JSON.stringify(turn))).accepted) {
        left -= 1
        if (left === 0 || this.engine.status().durability?.lost === true) return say({ kind: 'refused' })
        await this.engine.commit('is the store back?').catch(() => undefined)
      }
    }
  }

  async end(how: 'stop' | 'abandon'): Promise<void> {
    if (how === 'abandon') await this.engine.abandon()
    // Under strict it rejects when the last snapshot failed; nothing was told to be stored then.
    await this.engine.stop().catch(() => undefined)
  }

  async sayEnd(): Promise<void> {
    globalThis.gc?.()
    const { rss, heapUsed } = process.memoryUsage()
    const { calls, met } = this.#plan
    await say({
      kind: 'ended',
      counts: { backendCalls: calls, faults: met, outages: this.#outages, recoveries: this.#recoveries },
      rssBytes: rss,
      heapBytes: heapUsed,
    })
  }
}

let plan = new FaultPlan()
const FAULTY_FS = registerFaulty('fs', () => plan)
let run: Run | undefined

function failpointOf({ killAt }: BootOrder): (name: string) => void | Promise<void> {
  let visits = 0
  return (name) => {
    if (name === killAt?.failpoint && ++visits === killAt.visit) process.kill(process.pid, 'SIGKILL')
    return name === 'snapshot:before-manifest' ? say({ kind: 'committing' }) : undefined
  }
}

async function boot(order: BootOrder): Promise<void> {
  const { sessionId, dataRoot, bucket, policy, rotateSizeMb, faults } = order
  plan = new FaultPlan(faults)
  const engine = await Engine.fromConfig(
    {
      core: {
        tick_interval: '1h',
        sessions: { root: join(dataRoot, 'sessions'), retention: 0, restart: 'discard' },
        storage: { root: dataRoot },
        object_store: { backend: FAULTY_FS, bucket, failure_policy: policy, on_mixed: 'warn' },
      },
      journal: { rotate_size_mb: rotateSizeMb },
      plugins: { active: [WORKER_ID] },
    },
    {
      plugins: [createWorker(sayTrouble)],
      logger: silentLogger,
      // Opening a backend may take its time: what is tried here are its calls.
      clock: createFastClock(() => (plan.calls === 0 ? 1 : CLOCK_FACTOR)),
      recallSessionId: sessionId,
      useConfigSnapshot: false,
      failpoint: failpointOf(order),
    },
  )
  run = new Run(engine, plan, join(dataRoot, 'sessions', sessionId))
  try {
    await say({ kind: 'booted', report: await run.boot() })
  } catch (error) {
    await run.end('abandon')
    await say({ kind: 'boot-failed', error: (error as Error).message, faulted: plan.hasFailed })
    await run.sayEnd()
  }
}

async function obey(command: HostCommand): Promise<void> {
  if (command.kind === 'boot') return await boot(command.order)
  await run?.work(command.turns)
  await run?.end(command.end)
  await run?.sayEnd()
}

process.on('message', (command) => {
  obey(command as HostCommand).catch(sayTrouble)
})
process.on('unhandledRejection', sayTrouble)
process.once('disconnect', () => process.exit())
