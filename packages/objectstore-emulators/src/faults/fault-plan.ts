/** What a rule is asked about: the server's own name of the operation, and the object's key, empty where there is none. */
export interface RequestFacts {
  /** `PutObject`, `objects.insert`: the vendor's name. */
  operation: string
  key: string
}

/** One thing that goes wrong with a request. Byte counts are of the body as it travels, from 0. */
export type Fault =
  /** The request waits before anything is looked at. */
  | { kind: 'latency'; delayMs: number }
  /** Refused before it is applied, with the server's error of that code. */
  | { kind: 'status'; status: number; code: string; headers?: Record<string, string> }
  /** Taken, never applied, never answered. */
  | { kind: 'silence' }
  /** The connection is reset when that much of the request's body has arrived; nothing is applied. */
  | { kind: 'upload-reset'; afterBytes: number }
  /** The server stops reading the request's body there, and answers nothing. */
  | { kind: 'upload-stall'; afterBytes: number }
  /** The connection is reset when that much of the answer's body was sent. */
  | { kind: 'download-reset'; afterBytes: number }
  /** The answer stops there, its connection left open. */
  | { kind: 'download-stall'; afterBytes: number }
  /** A success that declares and sends only the first bytes of the object. */
  | { kind: 'download-short'; bytes: number }
  /** The request is applied, and the connection reset instead of an answer. */
  | { kind: 'lost-answer' }

export type FaultKind = Fault['kind']

/** Which requests a fault meets. */
export interface FaultRule {
  fault: Fault
  /** Default: every request. */
  on?: (request: RequestFacts) => boolean
  /** How often it strikes, at least 1; default: always. Counted for each key by itself with `perKey`. */
  times?: number
  perKey?: boolean
  /** Matching requests to let pass first; default 0. */
  after?: number
}

interface Planned {
  rule: FaultRule
  seen: Map<string, number>
}

/** The faults of one emulator: rules are added and dropped while it serves. Deterministic: no clock, no chance. */
export class FaultPlan {
  readonly #planned = new Set<Planned>()
  readonly #struck = new Map<FaultKind, number>()

  /** Adds a rule; the returned function drops it again. */
  add(rule: FaultRule): () => void {
    const planned: Planned = { rule, seen: new Map() }
    this.#planned.add(planned)
    return () => void this.#planned.delete(planned)
  }

  clear(): void {
    this.#planned.clear()
  }

  /** How often faults of a kind have struck: a test that planned one should see that it did. */
  struck(kind: FaultKind): number {
    return this.#struck.get(kind) ?? 0
  }

  /** The faults that meet this request, in the order their rules were added. Counts it. */
  take(request: RequestFacts): Fault[] {
    const faults: Fault[] = []
    for (const { rule, seen } of this.#planned) {
      if (rule.on?.(request) === false) continue
      const counter = rule.perKey === true ? request.key : ''
      const nth = seen.get(counter) ?? 0
      seen.set(counter, nth + 1)
      const first = rule.after ?? 0
      if (nth < first || nth >= first + (rule.times ?? Number.POSITIVE_INFINITY)) continue
      this.#struck.set(rule.fault.kind, this.struck(rule.fault.kind) + 1)
      faults.push(rule.fault)
    }
    return faults
  }
}
