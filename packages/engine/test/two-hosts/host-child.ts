import process from 'node:process'
import { join } from 'node:path'
import { isNexusError } from '@nexus/errors'
import '@nexus/objectstore-fs'
import { Engine, type Logger } from '../../src/index.ts'
import { history, rows, scribe } from '../engine-fixture.ts'
import { Faults, FLAKY_FS, registerFlakyFs } from './flaky-backend.ts'
import type {
  BootOrder,
  CommandName,
  HostCommands,
  HostMessage,
  HostRequest,
  RemoteError,
  SessionView,
} from './host-protocol.ts'
import { SkippingClock } from './skipping-clock.ts'

// A host: one process that boots, works and dies as its parent says. Started by `HostProcess`.

function say(message: HostMessage): void {
  process.send?.(message)
}

function reporter(level: string): Logger['info'] {
  return (fields, message) => {
    const { err, ...rest } = fields
    say({ kind: 'log', level, message, fields: err instanceof Error ? { ...rest, err: err.message } : rest })
  }
}

const silent = (): void => undefined
const logger: Logger = {
  trace: silent,
  debug: silent,
  info: reporter('info'),
  warn: reporter('warn'),
  error: reporter('error'),
}

/** Kills or stops the process where the parent wants it. */
class Failpoints {
  #killAt: { failpoint: string; visits: number } | undefined
  #holdAt: string | undefined
  #release: () => void = silent

  killAt(failpoint: string, visits: number): void {
    this.#killAt = { failpoint, visits }
  }

  holdAt(failpoint: string): void {
    this.#holdAt = failpoint
  }

  release(): void {
    this.#release()
  }

  clear(): void {
    this.#killAt = undefined
    this.#holdAt = undefined
    this.release()
  }

  readonly visit = (name: string): void | Promise<void> => {
    if (name === this.#killAt?.failpoint && --this.#killAt.visits === 0) process.kill(process.pid, 'SIGKILL')
    if (name !== this.#holdAt) return undefined
    this.#holdAt = undefined
    const held = new Promise<void>((resolve) => {
      this.#release = resolve
    })
    say({ kind: 'held', failpoint: name })
    return held
  }
}

const faults = new Faults()
const failpoints = new Failpoints()
let clock = new SkippingClock()
let engine: Engine | undefined

function running(): Engine {
  if (engine === undefined) throw new Error('this host runs no session')
  return engine
}

async function view(): Promise<SessionView> {
  const host = running()
  const hasHistory = await host.session.fileExists('context/conversation.jsonl')
  const lines = hasHistory ? await history(host) : ''
  return { history: lines.split('\n').slice(0, -1), rows: rows(host), status: host.status() }
}

async function boot({ sessionId, dataRoot, bucket, store }: BootOrder): Promise<SessionView> {
  const host = await Engine.fromConfig(
    {
      core: {
        tick_interval: '1h',
        sessions: { root: join(dataRoot, 'sessions'), retention: 0 },
        storage: { root: dataRoot },
        object_store: { ...store, backend: FLAKY_FS, bucket },
      },
    },
    { plugins: [scribe], logger, clock, failpoint: failpoints.visit, recallSessionId: sessionId },
  )
  host.bus.subscribeAll(({ type, payload }) => {
    if (type.startsWith('session.') || type === 'core.error')
      say({ kind: 'event', type, payload: payload as Record<string, unknown> })
  })
  engine = host
  await host.boot()
  return await view()
}

const handlers: { [C in CommandName]: (takes: HostCommands[C]['takes']) => Promise<HostCommands[C]['gives']> } = {
  boot,
  input: async ({ content }) => running().submitInput(content),
  commit: async () => {
    const { committed: manifest } = await running().commit()
    return { generation: manifest.generation }
  },
  look: view,
  faults: async ({ rules }) => faults.set(rules),
  'kill-at': async ({ failpoint, visit }) => failpoints.killAt(failpoint, visit),
  'hold-at': async ({ failpoint }) => failpoints.holdAt(failpoint),
  release: async () => failpoints.release(),
  'skip-time': async ({ ms }) => clock.skip(ms),
  'set-ahead': async ({ ms }) => clock.setAhead(ms),
  stop: async () => running().stop(),
  reset: async () => {
    failpoints.clear()
    faults.set([])
    await engine?.abandon()
    // One that failed to stop said so to whoever asked it to.
    await engine?.stop().catch(() => undefined)
    engine = undefined
    clock = new SkippingClock()
  },
}

function remoteError(error: Error): RemoteError {
  const { name, message } = error
  // Any other kind is a fault of the test's own: its stack is what helps.
  if (!isNexusError(error)) return { name, message: error.stack ?? message, fields: {} }
  return { name, message, code: error.code, fields: Object.fromEntries(Object.entries(error)) }
}

async function serve<C extends CommandName>({ id, command, takes }: HostRequest<C>): Promise<void> {
  try {
    say({ kind: 'answer', id, gives: await handlers[command](takes) })
  } catch (error) {
    say({ kind: 'failure', id, error: remoteError(error as Error) })
  }
}

registerFlakyFs(faults)
process.on('message', (request) => void serve(request as HostRequest))
process.once('disconnect', () => process.exit())
say({ kind: 'ready' })
