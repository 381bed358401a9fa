import { open, register, type Backend, type OpOptions } from '@nexus/objectstore'
import type { FaultRule } from './host-protocol.ts'

/** The name under which the backend of these tests is registered: `fs`, with faults. */
export const FLAKY_FS = 'flaky-fs'

/** Decides which calls of a backend fail. */
export class Faults {
  #rules: { rule: FaultRule; left: number }[] = []

  set(rules: readonly FaultRule[]): void {
    this.#rules = rules.map((rule) => ({ rule, left: rule.times ?? Infinity }))
  }

  /** What the call is to suffer; counts it. */
  take(op: string, key: string): FaultRule['how'] | undefined {
    const hit = this.#rules.find(({ rule, left }) => left > 0 && (rule.op ?? op) === op && key.includes(rule.key ?? ''))
    if (hit === undefined) return undefined
    hit.left -= 1
    return hit.rule.how
  }
}

/** Registers `fs` under {@link FLAKY_FS}, subject to the faults. `@nexus/objectstore-fs` must have been imported. */
export function registerFlakyFs(faults: Faults): void {
  register(FLAKY_FS, async (config, options) => withFaults(await open({ ...config, backend: 'fs' }, options), faults))
}

type Method = (...args: unknown[]) => Promise<unknown>

const SUBJECT: ReadonlySet<PropertyKey> = new Set(['hydrate', 'put', 'get', 'delete', 'list', 'flush'])

function withFaults(backend: Backend, faults: Faults): Backend {
  return new Proxy(backend, {
    get(target, name): unknown {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      const method = value.bind(target) as Method
      if (!SUBJECT.has(name)) return method
      return async (...args: [string | OpOptions, ...unknown[]]) => {
        const [key] = args
        const how = faults.take(String(name), typeof key === 'string' ? key : '')
        if (how === 'refuse') throw new Error(`connect ECONNREFUSED (${String(name)})`)
        const result = await method(...args)
        if (how === 'lose-answer') throw new Error(`socket hang up (${String(name)})`)
        return result
      }
    },
  })
}
