import { readFileSync, readlinkSync } from 'node:fs'
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
}

/** What is known of a pid: no such process, or one that started at `pidStart` (0: not known). */
export type ProcessSighting = 'gone' | { readonly pidStart: number }

/** The machine as a lock sees it. Tests hand in another one. */
export interface ProcessTable {
  self(): ProcessIdentity
  look(pid: number): ProcessSighting
}

/** The processes of this machine, from `/proc`; without it, signal 0 and no start times. */
export const systemProcesses: ProcessTable = { self, look }

let identity: ProcessIdentity | undefined

function self(): ProcessIdentity {
  const sighting = look(process.pid)
  identity ??= {
    pid: process.pid,
    pidStart: sighting === 'gone' ? 0 : sighting.pidStart,
    bootId: textOf(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
    pidNamespace: textOf(() => readlinkSync('/proc/self/ns/pid')),
  }
  return identity
}

function look(pid: number): ProcessSighting {
  const stat = textOf(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  // The second field is the command in parentheses and may hold anything, parentheses too: count from the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  if (stat !== '' && fields.length > 19) {
    // A zombie runs nothing any more; in a container whose first process reaps nobody it stays for ever.
    if (fields[0] === 'Z' || fields[0] === 'X') return 'gone'
    return { pidStart: Number(fields[19]) }
  }
  try {
    process.kill(pid, 0)
  } catch (error) {
    if (systemCode(error) === 'ESRCH') return 'gone'
  }
  return { pidStart: 0 }
}

/** Whether a pid of this pid namespace belongs to a living process; a zombie doesn't count. */
export function isRunning(pid: number): boolean {
  return look(pid) !== 'gone'
}

function textOf(read: () => string): string {
  try {
    return read().trim()
  } catch {
    return ''
  }
}
