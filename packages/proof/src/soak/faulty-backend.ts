import { open, register, type Backend, type OpOptions } from '@nexus/objectstore'

/**
 * `refuse`: the call fails and does nothing. `lose-answer`: it does its work and fails. `hang`: it does nothing and never
 * answers, until its signal fires. `slow`: it waits first.
 */
export const FAULT_KINDS = ['refuse', 'lose-answer', 'hang', 'slow'] as const
export type FaultKind = (typeof FAULT_KINDS)[number]

/** An outage: so many calls of the backend, from the n-th on, counted from 1. */
export interface FaultWindow {
  from: number
  calls: number
  how: FaultKind
}

/** What says which calls suffer. */
export interface Faults {
  take(): FaultKind | undefined
}

const SLOW_MS = 5
const SUBJECT: ReadonlySet<PropertyKey> = new Set(['hydrate', 'put', 'putIfAbsent', 'get', 'delete', 'list', 'flush'])

/** The faults of the run that is on, and how many calls met one. */
export class FaultPlan implements Faults {
  readonly met: Record<FaultKind, number> = { refuse: 0, 'lose-answer': 0, hang: 0, slow: 0 }
  calls = 0
  readonly #windows: readonly FaultWindow[]

  constructor(windows: readonly FaultWindow[] = []) {
    this.#windows = windows
  }

  /** Whether a call has failed, or not been answered. */
  get hasFailed(): boolean {
    return this.met.refuse + this.met['lose-answer'] + this.met.hang > 0
  }

  /** Counts a call and says what it is to suffer. */
  take(): FaultKind | undefined {
    const call = ++this.calls
    const window = this.#windows.find(({ from, calls }) => call >= from && call < from + calls)
    if (window !== undefined) this.met[window.how] += 1
    return window?.how
  }
}

/** Registers a backend a second time, subject to whatever plan is in force at a call. Returns its name there. */
export function registerFaulty(backend: string, plan: () => Faults): string {
  const name = `faulty-${backend}`
  register(name, async (config, options) => withFaults(await open({ ...config, backend }, options), plan))
  return name
}

type Method = (...args: unknown[]) => Promise<unknown>

function withFaults(backend: Backend, plan: () => Faults): Backend {
  return new Proxy(backend, {
    get(target, name): unknown {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      const method = value.bind(target) as Method
      if (!SUBJECT.has(name)) return method
      return async (...args: unknown[]) => {
        const how = plan().take()
        if (how === 'refuse') throw new Error('connect ECONNREFUSED (injected)')
        if (how === 'hang') await untilAborted(args.at(-1) as OpOptions | undefined)
        if (how === 'slow') await new Promise((resolve) => setTimeout(resolve, SLOW_MS))
        const result = await method(...args)
        if (how === 'lose-answer') throw new Error('socket hang up (injected)')
        return result
      }
    },
  })
}

async function untilAborted(options: OpOptions | undefined): Promise<never> {
  return await new Promise((_resolve, reject) => {
    const { signal } = options ?? {}
    if (signal?.aborted === true) reject(signal.reason as Error)
    signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  })
}
