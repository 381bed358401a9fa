import process from 'node:process'
import { open, register } from '@nexus/objectstore'
import { ContractHost, type HostOrder, type SessionState } from './contract-host.ts'
import { dyingAtManifest, type Death } from './dying-backend.ts'

/** What a child process of the suite is told, as the JSON of its single argument. */
export interface ChildOrder extends HostOrder {
  /** Imported for its side effect: registers the backend. */
  module: string
  /** The name it registers. */
  backend: string
  death: Death
}

/** What it reports: the state before the last errand when it dies within that, else the state after all of them. */
export interface ChildMessage {
  kind: 'before-last' | 'done'
  state: SessionState
}

async function send(message: ChildMessage): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    process.send?.(message, undefined, undefined, (error) => (error === null ? resolve() : reject(error)))
  })
}

async function dieHere(): Promise<never> {
  process.kill(process.pid, 'SIGKILL')
  return await new Promise<never>(() => undefined)
}

async function main(order: ChildOrder): Promise<void> {
  await import(order.module)
  const { death } = order
  register(order.store.backend ?? '', async (config, options) => {
    const backend = await open({ ...config, backend: order.backend }, options)
    return death.when === 'after' ? backend : dyingAtManifest(backend, death.visit, dieHere)
  })
  const host = await ContractHost.boot(order)
  if (death.when === 'at-manifest') {
    await host.run(order.errands.slice(0, -1))
    await send({ kind: 'before-last', state: await host.state() })
    await host.run(order.errands.slice(-1))
    return
  }
  await host.run(order.errands)
  await send({ kind: 'done', state: await host.state() })
  // Until the parent's SIGKILL, with every handle open.
  setInterval(() => undefined, 60_000)
}

await main(JSON.parse(process.argv[2] ?? '{}') as ChildOrder)
