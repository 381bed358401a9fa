import { FAULT_KINDS, type FaultWindow } from './faulty-backend.ts'
import type { SeededRandom } from './seeded-random.ts'

/** What one run of a session is to go through. */
export interface EpisodePlan {
  host: string
  /** The machine loses power before it. */
  reboot: boolean
  policy: 'degrade' | 'strict'
  faults: FaultWindow[]
  kill: Kill | undefined
  turns: number
  end: 'stop' | 'abandon'
}

export type Kill =
  | { how: 'failpoint'; failpoint: string; visit: number }
  /** So long after the order to boot. */
  | { how: 'booting'; afterMs: number }
  /** So long after the first turn was given. */
  | { how: 'working'; afterMs: number }

const MOST_HOSTS = 4
const MOST_TURNS = 5
/** A hang costs its deadline, whole. */
const MOST_HANGS = 3

/** @param hosts those that have run the session */
export function planEpisode(
  random: SeededRandom,
  hosts: readonly string[],
  failpoints: readonly string[],
): EpisodePlan {
  const fresh = `h${hosts.length + 1}`
  const isFresh = hosts.length === 0 || (hosts.length < MOST_HOSTS && random.chance(0.3))
  return {
    host: isFresh ? fresh : random.pick(hosts),
    reboot: random.chance(0.15),
    policy: random.chance(0.7) ? 'degrade' : 'strict',
    faults: random.chance(0.5) ? planFaults(random) : [],
    kill: random.chance(0.5) ? planKill(random, failpoints) : undefined,
    turns: random.between(0, MOST_TURNS),
    end: random.chance(0.7) ? 'stop' : 'abandon',
  }
}

function planFaults(random: SeededRandom): FaultWindow[] {
  let from = random.chance(0.2) ? 1 : random.between(5, 60)
  return Array.from({ length: random.between(1, 3) }, () => {
    const how = random.pick(FAULT_KINDS)
    const calls = how === 'hang' ? random.between(1, MOST_HANGS) : random.between(1, 30)
    const window = { from, calls, how }
    from += calls + random.between(1, 60)
    return window
  })
}

function planKill(random: SeededRandom, failpoints: readonly string[]): Kill {
  const roll = random.next()
  if (roll < 0.6) return { how: 'failpoint', failpoint: random.pick(failpoints), visit: random.between(1, 6) }
  if (roll < 0.7) return { how: 'booting', afterMs: random.between(0, 150) }
  return { how: 'working', afterMs: random.between(0, 400) }
}
