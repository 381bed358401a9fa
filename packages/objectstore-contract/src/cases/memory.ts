import assert from 'node:assert/strict'
import { open } from 'node:fs/promises'
import type { CaseContext, ContractCase } from '../contract-case.ts'

const MIB = 1024 * 1024
const SIZE_BYTES = 96 * MIB
const MOST_BYTES = 64 * MIB

function used(): number {
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** The most memory that a call needed, in bytes above what there was before it. */
async function peakOf(run: (sample: () => void) => Promise<void>): Promise<number> {
  const before = used()
  let most = before
  const sample = (): void => void (most = Math.max(most, used()))
  const timer = setInterval(sample, 5)
  try {
    await run(sample)
    sample()
  } finally {
    clearInterval(timer)
  }
  return most - before
}

async function largeFile(context: CaseContext): Promise<string> {
  const path = context.freshPath()
  const file = await open(path, 'w')
  try {
    await file.truncate(SIZE_BYTES)
  } finally {
    await file.close()
  }
  return path
}

/** That a file is never in memory as a whole. */
export const memoryCases: readonly ContractCase[] = [
  {
    name: 'put and hydrate stream a large file',
    rule: `A file moves in pieces: ${SIZE_BYTES / MIB} MiB need less than ${MOST_BYTES / MIB} MiB of memory.`,
    why: 'A host that holds many sessions is killed for its memory at the first large file.',
    requires: ['outOfProcess'],
    run: async (context) => {
      const path = await largeFile(context)
      const directory = context.freshPath()
      const calls: [string, (onProgress: () => void) => Promise<void>][] = [
        ['put', (onProgress) => context.backend.put('s/large', path, { onProgress })],
        ['hydrate', (onProgress) => context.backend.hydrate('s', directory, { onProgress })],
      ]
      for (const [verb, call] of calls) {
        const peak = await peakOf(call)
        assert.ok(peak < MOST_BYTES, `${verb} of ${SIZE_BYTES / MIB} MiB needed ${Math.ceil(peak / MIB)} MiB of memory`)
      }
    },
  },
]
