import { readFileSync, writeFileSync } from 'node:fs'

const BYTES_PER_KIB = 1024
const STATUS_FILE = '/proc/self/status'
const RESET_FILE = '/proc/self/clear_refs'
/** Sets the peak back to what is resident now. */
const RESET_PEAK = '5'

/** By how many bytes the peak of the resident memory, while `work` runs, is above what it was before. */
export async function memoryGrowth(work: () => Promise<unknown>): Promise<number> {
  resetPeak()
  const beforeBytes = process.memoryUsage.rss()
  await work()
  return Math.max(0, peakBytes() - beforeBytes)
}

// Not the peak of getrusage where it can be helped: on Linux a process inherits that one from its parent.
function peakBytes(): number {
  try {
    const kib = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(STATUS_FILE, 'utf8'))?.[1]
    if (kib !== undefined) return Number(kib) * BYTES_PER_KIB
  } catch {
    // Not Linux.
  }
  return process.resourceUsage().maxRSS * BYTES_PER_KIB
}

function resetPeak(): void {
  try {
    writeFileSync(RESET_FILE, RESET_PEAK)
  } catch {
    // Then an earlier peak may count, too: the figure errs to the safe side.
  }
}
