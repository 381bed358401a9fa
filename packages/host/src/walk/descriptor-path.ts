import { existsSync, readlinkSync } from 'node:fs'

// Linux resolves /proc/<pid>/fd/<n>/<name> from the open directory itself: what openat(2) would do, which Node lacks. By
// the pid and not by "self", so that it is the same file in a process that a driver starts. A /proc of another pid
// namespace would name descriptors of a stranger.
const FD_ROOT = findRoot()

function findRoot(): string | undefined {
  const dir = `/proc/${process.pid}/fd`
  try {
    return readlinkSync('/proc/self') === String(process.pid) && existsSync(dir) ? dir : undefined
  } catch {
    return undefined
  }
}

/** A path that leads to what is open under the descriptor, whatever its name leads to by now; undefined without `/proc`. */
export function descriptorPath(fd: number): string | undefined {
  return FD_ROOT === undefined ? undefined : `${FD_ROOT}/${fd}`
}
