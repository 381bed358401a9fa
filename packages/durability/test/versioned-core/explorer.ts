/** A step from one state to another. */
export interface Step<S> {
  label: string
  state: S
}

/** What is explored. States are plain JSON. */
export interface Space<S> {
  start: S
  steps: (state: S) => Promise<Step<S>[]>
  /** Why this state must never be; undefined where it may. */
  violation: (state: S) => string | undefined
}

export interface Exploration {
  states: number
  steps: number
  /** The first violation found, and how it came about. */
  violation?: { why: string; trace: string[] }
}

/** Visits every state that can be reached, depth first, each once; stops at the first violation. States are never changed. */
export async function explore<S>({ start, steps, violation }: Space<S>, limit = 5_000_000): Promise<Exploration> {
  const open = [{ state: start, hash: hashOf(JSON.stringify(start)) }]
  // Where each state was first reached from, for the trace.
  const origins = new Map<number, { from: number; label: string }>([[open[0]?.hash ?? 0, { from: 0, label: 'start' }]])
  let stepCount = 0
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const { label, state } of await steps(at.state)) {
      stepCount += 1
      const hash = hashOf(JSON.stringify(state))
      if (origins.has(hash)) continue
      origins.set(hash, { from: at.hash, label })
      const why = violation(state)
      if (why !== undefined) {
        return { states: origins.size, steps: stepCount, violation: { why, trace: traceOf(origins, hash) } }
      }
      if (origins.size > limit) throw new Error(`more than ${limit} states`)
      open.push({ state, hash })
    }
  }
  return { states: origins.size, steps: stepCount }
}

function traceOf(origins: ReadonlyMap<number, { from: number; label: string }>, hash: number): string[] {
  const trace: string[] = []
  for (let at = origins.get(hash); at !== undefined; at = origins.get(at.from)) trace.push(at.label)
  return trace.toReversed()
}

/** 53 bits: among a million states, two share a hash once in ten thousand runs. */
export function hashOf(text: string): number {
  let low = 0xdeadbeef
  let high = 0x41c6ce57
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    low = Math.imul(low ^ code, 2654435761)
    high = Math.imul(high ^ code, 1597334677)
  }
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909)
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909)
  return 4294967296 * (2097151 & high) + (low >>> 0)
}
