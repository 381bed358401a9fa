import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { FAILPOINTS } from '@nexus/engine/failpoints'
import { Hosts } from './soak/hosts.ts'
import { Life } from './soak/life.ts'
import { Tally } from './soak/tally.ts'

const USAGE = `usage: pnpm soak [--minutes N] [--seed S] [--lives N]

  --minutes  how long (default 5)
  --seed     the first session's seed; each following session has the next one
  --lives    stop after so many sessions: --seed S --lives 1 runs one again`

/** Below it, memory is only reported: a short run has not warmed up. */
const JUDGE_MEMORY_MINUTES = 10
const MINUTE_MS = 60_000

interface SoakOptions {
  minutes: number
  seed: number
  lives: number
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

function readOptions(args: readonly string[]): SoakOptions {
  const { values } = parseArgs({
    // pnpm hands its own separator on.
    args: args.filter((arg) => arg !== '--'),
    options: {
      minutes: { type: 'string', default: '5' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
      lives: { type: 'string', default: 'Infinity' },
    },
  })
  const options = { minutes: Number(values.minutes), seed: Number(values.seed), lives: Number(values.lives) }
  if (!(options.minutes > 0) || !Number.isSafeInteger(options.seed) || !(options.lives > 0))
    throw new Error('minutes and lives must be above 0, and the seed a whole number')
  return options
}

/** One session; false when something was wrong with it. */
async function live(seed: number, hosts: Hosts, tally: Tally): Promise<boolean> {
  const dir = mkdtempSync(join(tmpdir(), 'nexus-soak-'))
  const problems = await new Life({ seed, dir, hosts, failpoints: FAILPOINTS, tally }).run()
  if (problems.length === 0) {
    rmSync(dir, { recursive: true, force: true })
    return true
  }
  say(`FAILED seed ${seed}\n${problems.map((problem) => `  ${problem}`).join('\n')}\n  kept: ${dir}`)
  return false
}

async function soak({ minutes, seed, lives }: SoakOptions): Promise<boolean> {
  say(`soak: ${minutes} minutes from seed ${seed}`)
  const tally = new Tally()
  const endsAtMs = performance.now() + minutes * MINUTE_MS
  let tellsAtMs = performance.now() + MINUTE_MS
  const failed: number[] = []
  let hosts = new Hosts()
  try {
    for (let each = seed; each < seed + lives && performance.now() < endsAtMs; each += 1) {
      if (!(await live(each, hosts, tally))) {
        failed.push(each)
        // Whatever went wrong must not follow the next session.
        hosts.close()
        hosts = new Hosts()
      }
      if (performance.now() < tellsAtMs) continue
      tellsAtMs += MINUTE_MS
      say(`${tally.sessions} sessions, ${tally.resumes} resumes, ${tally.kills} kills, ${failed.length} failed`)
    }
  } finally {
    hosts.close()
  }
  tally.report().forEach(say)
  const hasGrown = minutes >= JUDGE_MEMORY_MINUTES && tally.hasGrown
  if (hasGrown) say('FAILED: memory did not stay flat')
  say(failed.length === 0 ? 'every resume was what its model says' : `failed seeds: ${failed.join(', ')}`)
  return failed.length === 0 && !hasGrown
}

let options: SoakOptions | undefined
try {
  options = readOptions(process.argv.slice(2))
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n${USAGE}\n`)
  process.exitCode = 2
}
if (options !== undefined) process.exitCode = (await soak(options)) ? 0 : 1
