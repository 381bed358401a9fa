import { createHash, randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { isRunning, systemProcesses } from '../process/process-identity.ts'

/** The prefix that keeps temporary files of the engine and its packages out of snapshots and listings. */
const PREFIX = '.nexus-tmp-'
const NAME = /^\.nexus-tmp-([0-9a-f]{8})-([0-9a-z]+)-([0-9a-f]{12})[0-9a-z]+$/

/** How long a temporary file whose writer can't be judged by its pid is left alone: 24 hours after its last write, in ms. */
export const TEMP_GRACE_MS: number = 24 * 60 * 60 * 1000

// Pids can be compared only where they were given out: on one host, since one boot, in one pid namespace.
let scope: string | undefined

function scopeOfPids(): string {
  const { bootId, pidNamespace } = systemProcesses.self()
  scope ??= createHash('sha256').update(`${hostname()}\n${bootId}\n${pidNamespace}`).digest('hex').slice(0, 8)
  return scope
}

// Apart from any other thread of this process that writes into the same directory; the counter tells names of this one apart.
const run = randomBytes(6).toString('hex')
let counter = 0

/** A new temporary name, at most 60 bytes however long the name of the final file, which may use up all 255. */
export function engineTempName(): string {
  return `${PREFIX}${scopeOfPids()}-${process.pid.toString(36)}-${run}${(counter++).toString(36)}`
}

/** Whether a name is one that the engine and its packages give to temporary files. Such files never cross the seam. */
export function isEngineTempName(name: string): boolean {
  return name.startsWith(PREFIX)
}

/**
 * Whether the writer of a temporary file is gone: its process ended, judged within our own boot and pid namespace, or the
 * file has not been written to for {@link TEMP_GRACE_MS}. Never for a name that this thread made.
 */
export function isAbandonedTemp(name: string, mtimeMs: number, nowMs: number): boolean {
  const [, scopeOfWriter, pid = '', runOfWriter] = NAME.exec(name) ?? []
  if (runOfWriter === run) return false
  if (scopeOfWriter === scopeOfPids() && !isRunning(Number.parseInt(pid, 36))) return true
  return nowMs - mtimeMs > TEMP_GRACE_MS
}
