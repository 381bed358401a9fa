import type { Fingerprint } from './fingerprint.ts'

/** How the demo's session lies in the bucket. */
export const LAYOUTS = ['mirror', 'versioned'] as const
export type LayoutName = (typeof LAYOUTS)[number]

/** What one host of the demo is told to do; it arrives as the single argument of the child process, as JSON. */
export interface HostOrder {
  role: 'work' | 'resume'
  sessionId: string
  /** The host's own data root: sessions live in `<dataRoot>/sessions`. */
  dataRoot: string
  backend: { name: string; bucket: string; module: string; layout: LayoutName }
  seed: number
  /** Turns to complete before the one that never ends (`work`). */
  turns: number
  /** Segment size that triggers a rotation, MiB. */
  rotateSizeMb: number
  /** The process kills itself with SIGKILL at the n-th visit of this failpoint. */
  killAt?: { failpoint: string; visit: number }
  /** A turn without end follows the completed ones, so that the parent can kill the process inside it. */
  hangInLastTurn: boolean
}

/** What a host reports to the process that started it. */
export type HostReport =
  | { kind: 'booted'; bootMs: number }
  | { kind: 'proposed'; turn: number; fingerprint: Fingerprint }
  | { kind: 'committed'; turn: number; durationMs: number; bytesUploaded: number; objectsUploaded: number }
  | { kind: 'mid-turn'; turn: number; unfinished: string[] }
  | { kind: 'resumed'; turns: number; fingerprint: Fingerprint; evidence: ResumeEvidence; mixed: string[] }
  | { kind: 'done' }

/** What the resumed host found besides the fingerprint. */
export interface ResumeEvidence {
  integrity: string
  /** The passage that answers the full-text query, or empty. */
  answer: string
  journalEvents: number
  journalDamage: number
  /** Process start to the first completed turn on the new host. */
  firstTurnMs: number
}

/** What the demo asks the full-text index after the resume. */
export const FULL_TEXT_QUERY = 'flush AND device'

/** Stands for every path of a session that died before its first commit: there is no manifest to name them. */
export const NO_MANIFEST = '(no manifest)'
