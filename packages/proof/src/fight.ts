import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { objectStoreConfig, openObjectStore, silentLogger } from '@nexus/objectstore'
import '@nexus/objectstore-fs'
import '@nexus/objectstore-s3'
import type { AcknowledgedTurn, FightMessage } from './fight/fight-protocol.ts'
import { createBattlefield, type Battlefield, STORES, type StoreKind } from './fight/battlefield.ts'
import { Fighter } from './fight/fighter.ts'
import { bucketOf, judgeChain } from './fight/judge-chain.ts'
import { SeededRandom } from './soak/seeded-random.ts'

const USAGE = `usage: npm run fight -- [--store fs|emulator|s3] [--minutes N] [--fighters N] [--seed S]

  --store     where they fight (default fs); s3 is the store that NEXUS_TEST_S3_ENDPOINT names
  --minutes   how long (default 1)
  --fighters  how many processes want the session (default 8)
  --seed      of stops and kills; what the processes do meanwhile is chance`

const MINUTE_MS = 60_000
/** Of the calls to the store. */
const LOST_ANSWERS = 0.02

interface FightOptions {
  store: StoreKind
  minutes: number
  fighters: number
  seed: number
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

function readOptions(args: readonly string[]): FightOptions {
  const { values } = parseArgs({
    args: args.filter((arg) => arg !== '--'),
    options: {
      store: { type: 'string', default: 'fs' },
      minutes: { type: 'string', default: '1' },
      fighters: { type: 'string', default: '8' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
    },
  })
  const store = STORES.find((each) => each === values.store)
  const [minutes, fighters, seed] = [Number(values.minutes), Number(values.fighters), Number(values.seed)]
  if (store === undefined) throw new Error(`there is no store ${values.store}`)
  if (!(minutes > 0) || !(fighters >= 1) || !Number.isSafeInteger(seed)) {
    throw new Error('minutes and fighters must be above 0, and the seed a whole number')
  }
  return { store, minutes, fighters, seed }
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

async function fight({ store, minutes, fighters: count, seed }: FightOptions, dir: string): Promise<boolean> {
  say(`fight: ${count} processes for one session on ${store}, ${minutes} minutes, seed ${seed}`)
  const field: Battlefield = await createBattlefield(store, dir)
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
    problems.slice(0, 20).forEach((problem) => say(`FAILED: ${problem}`))
    if (problems.length === 0) say('one chain, and every acknowledged turn in it')
    return problems.length === 0
  } finally {
    await Promise.all(fighters.map((fighter) => fighter.kill()))
    await field.close()
  }
}

let options: FightOptions | undefined
try {
  options = readOptions(process.argv.slice(2))
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n${USAGE}\n`)
  process.exitCode = 2
}
if (options !== undefined) {
  const dir = mkdtempSync(join(tmpdir(), 'nexus-fight-'))
  const isFine = await fight(options, dir)
  if (isFine) rmSync(dir, { recursive: true, force: true })
  else {
    writeFileSync(join(dir, 'options.json'), JSON.stringify(options))
    say(`kept: ${dir}`)
    process.exitCode = 1
  }
}
