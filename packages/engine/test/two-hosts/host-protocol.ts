import type { EngineStatus, InputOutcome, StoreInput } from '../../src/index.ts'

/** How a host boots. */
export interface BootOrder {
  sessionId: string
  /** The host's own: sessions live in `<dataRoot>/sessions`. */
  dataRoot: string
  bucket: string
  /** What the `object_store` block says besides backend and bucket. */
  store: Omit<StoreInput, 'backend' | 'bucket'>
}

/** What happens to calls of the backend. */
export interface FaultRule {
  op?: 'hydrate' | 'put' | 'get' | 'delete' | 'list' | 'flush'
  /** Part of the key. */
  key?: string
  /** `refuse`: fails and does nothing. `lose-answer`: does it and fails. */
  how: 'refuse' | 'lose-answer'
  /** How many calls; default: all. */
  times?: number
}

/** What the session looks like on a host. */
export interface SessionView {
  /** Lines of the conversation. */
  history: string[]
  /** The same inputs as the database has them. */
  rows: unknown[]
  status: EngineStatus
}

/** What a host can be told, with what it takes and what it answers. */
export interface HostCommands {
  boot: { takes: BootOrder; gives: SessionView }
  input: { takes: { content: string }; gives: InputOutcome }
  commit: { takes: object; gives: { generation: number } }
  look: { takes: object; gives: SessionView }
  /** Replaces all rules. */
  faults: { takes: { rules: FaultRule[] }; gives: void }
  /** SIGKILL for itself at the n-th visit from now. */
  'kill-at': { takes: { failpoint: string; visit: number }; gives: void }
  /** Waits at the next visit, which is reported, until it is released. */
  'hold-at': { takes: { failpoint: string }; gives: void }
  release: { takes: object; gives: void }
  /** Lets time pass at once: its clock jumps, and what is due by then happens. */
  'skip-time': { takes: { ms: number }; gives: void }
  /** Sets its clock ahead of everybody's. */
  'set-ahead': { takes: { ms: number }; gives: void }
  stop: { takes: object; gives: void }
  /** Drops whatever runs, so that the process can play another host. */
  reset: { takes: object; gives: void }
}

export type CommandName = keyof HostCommands

export interface HostRequest<C extends CommandName = CommandName> {
  id: number
  command: C
  takes: HostCommands[C]['takes']
}

/** An error that crossed the process boundary. */
export interface RemoteError {
  name: string
  message: string
  code?: string
  /** Own enumerable fields, `cause` left out. */
  fields: Record<string, unknown>
}

/** What a host says. */
export type HostMessage =
  | { kind: 'ready' }
  | { kind: 'answer'; id: number; gives: unknown }
  | { kind: 'failure'; id: number; error: RemoteError }
  | { kind: 'event'; type: string; payload: Record<string, unknown> }
  | { kind: 'log'; level: string; message: string; fields: Record<string, unknown> }
  | { kind: 'held'; failpoint: string }
