import { type Backend, type ObjectStore, redactError } from '@nexus/objectstore'

/** An optional method of a backend that cases are written for. */
export type Capability = 'get' | 'putIfAbsent' | 'listNames' | 'classify' | 'close'

/** A state of the store that a suite can be given a way to bring about; see `SuiteOptions`. */
export type Circumstance = 'configured' | 'missingBucket' | 'refused' | 'removeBucket' | 'lostAnswer' | 'cutDownloads'

/**
 * What a case needs: a capability of the backend, or something the suite was told that it may use. `plant` is a way to put
 * objects into the bucket that the backend itself would refuse; `outOfProcess` says that the store's memory is not this one's.
 */
export type Requirement = Capability | Circumstance | 'concurrency' | 'objectAtPrefix' | 'plant' | 'outOfProcess'

/** The parts of a configuration that cases change. */
export interface ChangedConfig {
  prefix?: string
  options?: Record<string, unknown>
}

/** What a case works with: a fresh, empty backend and a fresh local directory. */
export interface CaseContext {
  readonly backend: Backend
  /** The same backend as the engine calls it: misses, aborts and codes are those of `ObjectStore`. */
  readonly seam: ObjectStore
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
  /** Opens further backends in a circumstance that the suite was given a way to; closed after the case. */
  readonly open: {
    configured: (parts: ChangedConfig) => Promise<Backend>
    missingBucket: () => Promise<Backend>
    refused: () => Promise<Backend>
    lostAnswer: () => Promise<Backend>
    cutDownloads: () => Promise<Backend>
  }
  /** Takes the bucket of the case's backend away under it. */
  readonly removeBucket: () => Promise<void>
  /**
   * Puts an object into the bucket behind the backend's back, under a key it would refuse. Where the store can't hold the key
   * the case ends here, as not applicable.
   */
  readonly plant: (key: string, content: string | Uint8Array) => Promise<void>
}

/** What most cases begin with or look through. */
export type Step = 'put' | 'list of everything'

/** The case of each step, run before the others: where it fails, they say so instead of failing too. */
export const STEP_CASES: Readonly<Record<Step, string>> = {
  put: 'put stores the bytes as they are',
  'list of everything': 'list of the empty prefix gives everything',
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

/** Thrown in a case that turns out not to apply, or that could not begin: the reason is shown, and nothing has failed. */
export class NotApplicable extends Error {}

/** A case that failed: what was seen, the rule and why it matters in the message, the assertion or driver error as cause. */
export class ContractViolation extends Error {
  readonly caseName: string

  /** @param call which call of the driver rejected with the cause, where one did: `delete of "s/x"` */
  constructor(contractCase: ContractCase, thrown: unknown, call?: string) {
    // An SDK's error carries its request, credentials and all, and a runner prints the causes.
    const cause = redactError(thrown)
    const seen = cause instanceof Error ? cause.message : String(cause)
    const headline = call === undefined ? seen : `${call} rejected with ${nameOf(cause)}: ${seen}`
    super(`${headline}\n\nRule: ${contractCase.rule}\nWhy it matters: ${contractCase.why}\n`, { cause })
    this.name = 'ContractViolation'
    this.caseName = contractCase.name
  }
}

/** `RestError 500`: what an error is called, and the code or status it carries. */
function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error
  const { code, statusCode, status } = error as { code?: unknown; statusCode?: unknown; status?: unknown }
  const number = [statusCode, status, code].find((each) => typeof each === 'number' || typeof each === 'string')
  return number === undefined ? error.name : `${error.name} ${String(number)}`
}
