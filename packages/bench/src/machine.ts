import { createHash } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { median } from './measure.ts'
import { withStall } from './stall.ts'

const REST_MS = 200
const SAMPLE_BYTES = 32 * 1024 * 1024
const SAMPLES = 5
const GIB = 1024 ** 3

/** What the machine gives at present, to read the figures by that are no ratios. */
export interface Machine {
  node: string
  cpus: number
  /** GiB a second that one thread hashes. */
  sha256GibPerSecond: number
  /** Longest gap of an event loop that has nothing to do, in milliseconds. */
  stallAtRestMs: number
}

export async function measureMachine(): Promise<Machine> {
  const { stallMs } = await withStall(() => new Promise((resolve) => setTimeout(resolve, REST_MS)))
  const bytes = Buffer.alloc(SAMPLE_BYTES)
  const rates = Array.from({ length: SAMPLES }, () => {
    const startMs = performance.now()
    createHash('sha256').update(bytes).digest()
    return ((SAMPLE_BYTES / (performance.now() - startMs)) * 1000) / GIB
  })
  return {
    node: process.version,
    cpus: availableParallelism(),
    sha256GibPerSecond: median(rates),
    stallAtRestMs: stallMs,
  }
}

/** In one line. */
export function describeMachine({ node, cpus, sha256GibPerSecond, stallAtRestMs }: Machine): string {
  const sha256 = `sha256 at ${sha256GibPerSecond.toFixed(1)} GiB/s`
  return `Node ${node}, ${cpus} CPUs, ${sha256}, event loop at rest: longest gap ${stallAtRestMs.toFixed(1)} ms`
}
