import { createHash } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

/** Eight hex digits for the boot and pid namespace of this host: within them, and only there, a pid means something. */
export const processScope: string = createHash('sha256')
  .update(
    `${hostname()}\n${readOr(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'))}\n` +
      readOr(() => readlinkSync('/proc/self/ns/pid')),
  )
  .digest('hex')
  .slice(0, 8)

export function isRunning(pid: number): boolean {
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
