import type { Backend } from '@nexus/objectstore'

/** An optional method of a backend that cases are written for. */
export type Capability = 'get' | 'putIfAbsent' | 'classify' | 'close'

/**
 * What a case needs: a capability of the backend, or something the suite was told that it may use. `plant` is a way to put
 * objects into the bucket that the backend itself would refuse.
 */
export type Requirement = Capability | 'concurrency' | 'objectAtPrefix' | 'plant'

/** What a case works with: a fresh, empty backend and a fresh local directory. */
export interface CaseContext {
  readonly backend: Backend
  /** Objects the pagination probe stores. */
  readonly listProbeCount: number
  /** A path that nothing is at yet, in the case's own directory; its parent exists. */
  readonly freshPath: () => string
  /** Writes a local file and gives its path. */
  readonly file: (content: string | Uint8Array) => Promise<string>
  /** Puts content under a key through the backend. */
  readonly store: (key: string, content: string | Uint8Array) => Promise<void>
  /** The listed keys, sorted. */
  readonly keys: (prefix: string) => Promise<string[]>
  /** Hydrates a prefix into a fresh directory and gives what is there; as `readTree` shows it. */
  readonly hydrated: (prefix: string) => Promise<[path: string, content: string][]>
  /** Closes the backend, once: the suite closes it after the case unless the case did. */
  readonly close: () => Promise<void>
  /** Puts an object into the bucket behind the backend's back, under a key it would refuse. */
  readonly plant: (key: string, content: string | Uint8Array) => Promise<void>
}

/** One rule of the seam and the proof that a backend keeps it. */
export interface ContractCase {
  /** A sentence of behaviour, unique in the suite. */
  readonly name: string
  /** The rule, as a driver author needs to read it when the case failed. */
  readonly rule: string
  /** What goes wrong in the engine when the rule is broken. */
  readonly why: string
  /** Skipped, with the reason, where one of these is not there. */
  readonly requires?: readonly Requirement[]
  run(context: CaseContext): Promise<void>
}

/** A case that failed: what was seen, the rule and why it matters in the message, the assertion or driver error as cause. */
export class ContractViolation extends Error {
  readonly caseName: string

  constructor(contractCase: ContractCase, cause: unknown) {
    const seen = cause instanceof Error ? cause.message : String(cause)
    super(`${seen}\n\nRule: ${contractCase.rule}\nWhy it matters: ${contractCase.why}\n`, { cause })
    this.name = 'ContractViolation'
    this.caseName = contractCase.name
  }
}
