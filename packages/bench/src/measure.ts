/** What one timed run of a contender gave: milliseconds, operations a second, or whatever its row says. */
export type Sample = () => number | Promise<number>

/** How contenders are run. */
export interface AlternateOptions {
  /** Recorded rounds; each contender runs once in each. */
  rounds: number
  /** Rounds before those, which are thrown away. Default 1. */
  warmups?: number
}

/** One contender beside another, over all rounds. */
export interface Comparison {
  /** Median of our samples. */
  ours: number
  /** Median of the other's samples. */
  reference: number
  /** Median of the ratios ours / reference of the single rounds, so that a slow spell of the machine weighs on both. */
  ratio: number
  /** Smallest and largest of those ratios. */
  ratioLow: number
  ratioHigh: number
}

/** @throws RangeError without values */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle]
  if (upper === undefined) throw new RangeError('there is no median of nothing')
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2
}

/**
 * Runs the contenders one after the other, round after round; each round begins with another one. Returns the samples of
 * each in the order of the rounds.
 */
export async function alternate<Name extends string>(
  contenders: Readonly<Record<Name, Sample>>,
  { rounds, warmups = 1 }: AlternateOptions,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(contenders) as Name[]
  const samples = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>
  for (let round = -warmups; round < rounds; round++) {
    for (const step of names.keys()) {
      const name = names[(step + round + warmups) % names.length] as Name
      collectGarbage()
      const value = await contenders[name]()
      if (round >= 0) samples[name].push(value)
    }
  }
  return samples
}

/** Sets our samples against another's of the same rounds. */
export function compare(ours: readonly number[], reference: readonly number[]): Comparison {
  const ratios = ours.map((value, round) => value / (reference[round] as number))
  return {
    ours: median(ours),
    reference: median(reference),
    ratio: median(ratios),
    ratioLow: Math.min(...ratios),
    ratioHigh: Math.max(...ratios),
  }
}

/** Milliseconds that `work` takes. */
export async function elapsedMs(work: () => unknown): Promise<number> {
  const startMs = performance.now()
  await work()
  return performance.now() - startMs
}

/** Operations a second of `work`, which does `count` of them. */
export async function ratePerSecond(count: number, work: () => unknown): Promise<number> {
  return (count / (await elapsedMs(work))) * 1000
}

// One contender must not pay for the garbage of the one before it.
function collectGarbage(): void {
  globalThis.gc?.()
}
