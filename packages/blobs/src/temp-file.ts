import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

/** The prefix that keeps temp files of the engine out of snapshots and listings. */
const PREFIX = '.nexus-tmp-'
const NAME = /^\.nexus-tmp-([0-9a-f]{8})-([0-9a-z]+)-[0-9a-z]+$/

/** How long a temp file whose writer can't be judged by its pid is left alone: 24 hours after its last write, in ms. */
export const TEMP_GRACE_MS: number = 24 * 60 * 60 * 1000

// Pids can be compared only where they were given out: on one host, since one boot, in one pid namespace.
const scope = createHash('sha256')
  .update(
    `${hostname()}\n${readOr(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'))}\n` +
      readOr(() => readlinkSync('/proc/self/ns/pid')),
  )
  .digest('hex')
  .slice(0, 8)

const own = new Set<string>()

// Apart from any other thread of this process that puts into the same directory; the counter tells names of this one apart.
const run = randomBytes(6).toString('hex')
let counter = 0

/** A fresh temp name of this process, which counts as live until {@link releaseTempName}. */
export function claimTempName(): string {
  const name = `${PREFIX}${scope}-${process.pid.toString(36)}-${run}${(counter++).toString(36)}`
  own.add(name)
  return name
}

export function releaseTempName(name: string): void {
  own.delete(name)
}

export function isTempName(name: string): boolean {
  return name.startsWith(PREFIX)
}

/**
 * Whether nobody can still be writing the temp file: its process, judged within our own boot and pid namespace, is gone,
 * or it has not been written to for {@link TEMP_GRACE_MS}.
 */
export function isAbandonedTemp(name: string, mtimeMs: number, nowMs: number): boolean {
  if (own.has(name)) return false
  const match = NAME.exec(name)
  if (match?.[1] === scope && !isRunning(Number.parseInt(match[2] ?? '', 36))) return true
  return nowMs - mtimeMs > TEMP_GRACE_MS
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

function readOr(read: () => string): string {
  try {
    return read()
  } catch {
    return ''
  }
}
