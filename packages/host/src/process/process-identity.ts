import { readFileSync, readlinkSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'
import { systemCode } from '@nexus/errors'

/** What tells this process from every other one that ever had, or will have, its pid. */
export interface ProcessIdentity {
  readonly pid: number
  /** Start time in clock ticks since boot; 0 where the platform doesn't tell. */
  readonly pidStart: number
  /** Changes with every boot of the machine; empty where the platform doesn't tell. */
  readonly bootId: string
  /** Where the pid counts, e.g. `pid:[4026531836]`; empty where the platform doesn't tell. */
  readonly pidNamespace: string
  /** The worker thread that asks; absent on the main thread, which lives as long as the process. */
  readonly thread?: ThreadIdentity
}

/** What tells a worker thread from every other one of this machine. */
export interface ThreadIdentity {
  /** The kernel's id; 0 where the platform doesn't tell. */
  readonly tid: number
  /** Start time in clock ticks since boot. */
  readonly start: number
}

/** What is known of a pid: no such process, or one that started at `pidStart` (0: not known). */
export type ProcessSighting = 'gone' | { readonly pidStart: number }

/** The machine as a lock sees it. Tests hand in another one. */
export interface ProcessTable {
  self(): ProcessIdentity
  look(pid: number): ProcessSighting
  /** Whether this worker thread of the process runs; undefined where that can't be told. */
  threadRuns?(pid: number, thread: ThreadIdentity): boolean | undefined
}

/** The processes of this machine, from `/proc`; without it, signal 0 and no start times. */
export const systemProcesses: ProcessTable = { self, look, threadRuns }

let identity: ProcessIdentity | undefined

function self(): ProcessIdentity {
  const sighting = look(process.pid)
  identity ??= {
    pid: process.pid,
    pidStart: sighting === 'gone' ? 0 : sighting.pidStart,
    bootId: textOf(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
    pidNamespace: textOf(() => readlinkSync('/proc/self/ns/pid')),
    ...(isMainThread ? {} : { thread: thisThread() }),
  }
  return identity
}

/** A synchronous call runs on the thread that makes it, so the kernel says which one that is. */
function thisThread(): ThreadIdentity {
  const tid = Number(textOf(() => readlinkSync('/proc/thread-self')).split('/')[2] ?? 0)
  return { tid, start: startTime(textOf(() => readFileSync('/proc/thread-self/stat', 'utf8'))) ?? 0 }
}

function threadRuns(pid: number, { tid, start }: ThreadIdentity): boolean | undefined {
  if (tid === 0) return undefined
  return startTime(textOf(() => readFileSync(`/proc/${pid}/task/${tid}/stat`, 'utf8'))) === start
}

function look(pid: number): ProcessSighting {
  const stat = textOf(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  if (stat !== '') {
    const pidStart = startTime(stat)
    return pidStart === undefined ? 'gone' : { pidStart }
  }
  try {
    process.kill(pid, 0)
  } catch (error) {
    if (systemCode(error) === 'ESRCH') return 'gone'
  }
  return { pidStart: 0 }
}

/**
 * The start time in a `stat` of `/proc`; undefined for what runs nothing any more. A zombie doesn't: in a container whose first
 * process reaps no child it stays as long as the container.
 */
function startTime(stat: string): number | undefined {
  // The second field is the command in parentheses and may hold anything, parentheses too: count from the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  if (fields.length <= 19 || fields[0] === 'Z' || fields[0] === 'X') return undefined
  return Number(fields[19])
}

/**
 * Whether a pid of this pid namespace belongs to a living process; a zombie doesn't count.
 *
 * @param thread a worker thread of it that must run as well, where that can be told
 */
export function isRunning(pid: number, thread?: ThreadIdentity): boolean {
  if (look(pid) === 'gone') return false
  return thread === undefined || threadRuns(pid, thread) !== false
}

function textOf(read: () => string): string {
  try {
    return read().trim()
  } catch {
    return ''
  }
}
