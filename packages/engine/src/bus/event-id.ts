import { randomInt } from 'node:crypto'

const RADIX = 32
const RANDOM_DIGITS = 16
const COUNTER_DIGITS = 10
const BLOCK = RADIX * RADIX

const BLOCK_SUFFIXES: readonly string[] = Array.from({ length: BLOCK }, (_, low) =>
  low.toString(RADIX).padStart(2, '0'),
)

/**
 * Makes a generator of ids of 26 characters `[0-9a-v]`: 80 random bits drawn once, then a counter of fixed width, so that
 * ids of one generator ascend. Only one in 1,024 calls formats a number; the others append a ready-made suffix.
 *
 * @param random numbers in [0, 1); default: the system's cryptographic source
 */
export function createEventIds(random: () => number = cryptoRandom): () => string {
  let base = ''
  for (let digit = 0; digit < RANDOM_DIGITS; digit++) base += Math.floor(random() * RADIX).toString(RADIX)
  const prefixOf = (block: number): string => base + block.toString(RADIX).padStart(COUNTER_DIGITS - 2, '0')
  let block = 0
  let low = 0
  let prefix = prefixOf(block)
  return () => {
    if (low === BLOCK) {
      low = 0
      prefix = prefixOf(++block)
    }
    return prefix + (BLOCK_SUFFIXES[low++] as string)
  }
}

function cryptoRandom(): number {
  return randomInt(2 ** 32) / 2 ** 32
}
