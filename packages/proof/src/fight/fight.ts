import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { objectStoreConfig, openObjectStore, silentLogger } from '@nexus/objectstore'
import '@nexus/objectstore-fs'
import '@nexus/objectstore-s3'
import { SeededRandom } from '../soak/seeded-random.ts'
import { createBattlefield, type StoreKind } from './battlefield.ts'
import type { AcknowledgedTurn, FightMessage } from './fight-protocol.ts'
import { Fighter } from './fighter.ts'
import { bucketOf, judgeChain } from './judge-chain.ts'

const MINUTE_MS = 60_000
/** Of the calls to the store. */
const LOST_ANSWERS = 0.02

export interface FightOptions {
  store: StoreKind
  minutes: number
  fighters: number
  /** Of stops and kills; what the processes do meanwhile is chance. */
  seed: number
}

/** What the fighters said. */
class Record {
  readonly acknowledged: AcknowledgedTurn[] = []
  boots = 0
  losses = 0
  readonly failures = new Map<string, { count: number; example: string }>()

  hear(message: FightMessage): void {
    if (message.kind === 'booted') this.boots += 1
    else if (message.kind === 'lost') this.losses += 1
    else if (message.kind === 'acknowledged') this.acknowledged.push(message)
    else {
      const known = this.failures.get(message.code)
      this.failures.set(message.code, { count: (known?.count ?? 0) + 1, example: message.error })
    }
  }
}

/** Stops, continues and kills fighters until the time is over. */
async function rage(fighters: readonly Fighter[], random: SeededRandom, endsAtMs: number): Promise<number> {
  let kills = 0
  const waking: Promise<void>[] = []
  while (performance.now() < endsAtMs) {
    await setTimeout(random.between(50, 800))
    const fighter = random.pick(fighters)
    if (fighter.isStopped) continue
    if (random.chance(0.4)) {
      kills += 1
      await fighter.replace()
      continue
    }
    fighter.stop()
    waking.push(setTimeout(random.between(50, 6_000)).then(() => fighter.continue()))
  }
  await Promise.all(waking)
  return kills
}

/**
 * Lets processes fight for one session, and judges what is in the store afterwards.
 *
 * @param dir an empty directory
 * @returns what is wrong, a sentence each
 */
export async function fight(
  { store, minutes, fighters: count, seed }: FightOptions,
  dir: string,
  say: (text: string) => void,
): Promise<string[]> {
  const field = await createBattlefield(store, dir)
  const record = new Record()
  const sessionId = `fight-${randomBytes(4).toString('hex')}`
  const fighters = Array.from({ length: count }, (_, fighter) => {
    const dataRoot = join(dir, `host-${fighter}`)
    mkdirSync(dataRoot)
    const order = { fighter, sessionId, dataRoot, store: field.store, lostAnswers: LOST_ANSWERS }
    return new Fighter(order, (message) => record.hear(message))
  })
  try {
    const kills = await rage(fighters, new SeededRandom(seed), performance.now() + minutes * MINUTE_MS)
    await Promise.all(fighters.map((fighter) => fighter.kill()))
    const { credentials_file: credentialsFile, ...place } = field.store
    const config = objectStoreConfig({ ...place, ...(credentialsFile === undefined ? {} : { credentialsFile }) })
    const opened = await openObjectStore(config, { logger: silentLogger })
    const { acknowledged, boots, losses, failures } = record
    const { problems, head, commits } = await judgeChain(bucketOf(opened, dir), sessionId, acknowledged)
    await opened.close()
    say(
      `${head} commits (${commits} not reclaimed), ${acknowledged.length} acknowledged turns, ${boots} boots, ${losses} lost, ${kills} kills`,
    )
    for (const [code, { count: times, example }] of failures) say(`${times} x ${code}: ${example.slice(0, 300)}`)
    if (acknowledged.length === 0) problems.push('no turn was acknowledged')
    // Each host has one process at a time, and the lock of a dead one is free.
    const locked = failures.get('LOCKED')
    if (locked !== undefined) problems.push(`a process found its session locked: ${locked.example}`)
    return problems
  } finally {
    await Promise.all(fighters.map((fighter) => fighter.kill()))
    await field.close()
  }
}
