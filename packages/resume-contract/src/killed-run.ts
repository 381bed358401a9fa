import { fork } from 'node:child_process'
import { extname } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import type { ChildMessage, ChildOrder } from './child.ts'
import { ContractHost, type HostOrder, type SessionState } from './contract-host.ts'
import { dyingAtManifest, type Death } from './dying-backend.ts'
import type { ResumeStore } from './resume-store.ts'

/** A run that ended by a kill. */
export interface KilledRun {
  /** The state at the last report before it. */
  state: SessionState
}

/** No child of the suite lives longer. */
const CHILD_LIMIT_MS = 60_000

const CHILD_FILE = fileURLToPath(new URL(`./child${extname(import.meta.url)}`, import.meta.url))

let labels = 0

/**
 * Runs errands on a host and kills it: a real child process with SIGKILL where the store can be reached from one, else an
 * engine of this process that is abandoned with every handle still open.
 *
 * @param bucket where the host stores; the order's store block is made for it
 */
export async function runAndKill(
  store: ResumeStore,
  bucket: string,
  order: Omit<HostOrder, 'store'>,
  death: Death = { when: 'after' },
): Promise<KilledRun> {
  return store.crossProcess === true
    ? await killChild(store, bucket, order, death)
    : await abandonHere(store, bucket, order, death)
}

async function killChild(
  store: ResumeStore,
  bucket: string,
  order: Omit<HostOrder, 'store'>,
  death: Death,
): Promise<KilledRun> {
  if (store.childModule === undefined)
    throw new TypeError(`store ${store.name} is crossProcess and names no childModule`)
  const childOrder: ChildOrder = {
    ...order,
    store: store.objectStoreConfig('resume-contract-child', bucket, 'degrade'),
    module: store.childModule,
    backend: store.name,
    death,
  }
  const child = fork(CHILD_FILE, [JSON.stringify(childOrder)], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  let stderr = ''
  let state: SessionState | undefined
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  child.on('message', (message) => {
    const { kind, ...report } = message as ChildMessage
    state = report.state
    if (kind === 'done') child.kill('SIGKILL')
  })
  const limit = setTimeout(() => child.kill('SIGKILL'), CHILD_LIMIT_MS)
  const signal = await new Promise<NodeJS.Signals | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (_code, endedBy) => resolve(endedBy))
  })
  clearTimeout(limit)
  if (signal !== 'SIGKILL' || state === undefined) throw new Error(`the child was not killed as planned: ${stderr}`)
  return { state }
}

/** Tells that the planned death was reached. */
class DeathNotice {
  announce!: () => void
  readonly announced: Promise<void> = new Promise((resolve) => {
    this.announce = resolve
  })
}

async function abandonHere(
  store: ResumeStore,
  bucket: string,
  order: Omit<HostOrder, 'store'>,
  death: Death,
): Promise<KilledRun> {
  const label = `resume-contract-${process.pid}-${(labels += 1)}`
  const dying = new DeathNotice()
  const unregister = store.register(label, (backend) =>
    death.when === 'after'
      ? backend
      : dyingAtManifest(backend, death.visit, () => {
          dying.announce()
          return new Promise<never>(() => undefined)
        }),
  )
  try {
    const host = await ContractHost.boot({ ...order, store: store.objectStoreConfig(label, bucket, 'degrade') })
    if (death.when === 'after') {
      await host.run(order.errands)
      const state = await host.state()
      await host.engine.abandon()
      return { state }
    }
    await host.run(order.errands.slice(0, -1))
    const state = await host.state()
    void host.run(order.errands.slice(-1))
    await dying.announced
    await host.engine.abandon()
    return { state }
  } finally {
    unregister()
  }
}
