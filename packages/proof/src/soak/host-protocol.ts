import type { Turn } from './deed.ts'
import type { FaultKind, FaultWindow } from './faulty-backend.ts'
import type { BootReport } from './judge-boot.ts'

/** How a host boots a session. */
export interface BootOrder {
  sessionId: string
  /** The host's own: sessions live in `<dataRoot>/sessions`. */
  dataRoot: string
  bucket: string
  policy: 'degrade' | 'strict'
  rotateSizeMb: number
  faults: FaultWindow[]
  /** The process kills itself with SIGKILL at the n-th visit of this failpoint. */
  killAt?: { failpoint: string; visit: number }
}

/** What a host is told: a boot, then work, and so on. */
export type HostCommand = { kind: 'boot'; order: BootOrder } | { kind: 'work'; turns: Turn[]; end: 'stop' | 'abandon' }

/** What a run did and suffered. */
export interface RunCounts {
  backendCalls: number
  faults: Record<FaultKind, number>
  outages: number
  recoveries: number
}

/** What a host says. */
export type HostMessage =
  | { kind: 'booted'; report: BootReport }
  | { kind: 'boot-failed'; error: string; faulted: boolean }
  /** The handlers of a turn's end run; its snapshot follows. */
  | { kind: 'boundary'; turnId: string }
  /** A manifest is about to be put. */
  | { kind: 'committing' }
  /** A snapshot was stored. */
  | { kind: 'committed' }
  /** Another host has the session. */
  | { kind: 'lost' }
  /** Input was refused again and again: the rest of the turns is left. */
  | { kind: 'refused' }
  /** Something failed that no fault explains. */
  | { kind: 'trouble'; error: string }
  | { kind: 'ended'; counts: RunCounts; rssBytes: number; heapBytes: number }
