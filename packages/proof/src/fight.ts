import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { STORES } from './fight/battlefield.ts'
import { fight, type FightOptions } from './fight/fight.ts'

const USAGE = `usage: npm run fight -- [--store fs|emulator|s3] [--minutes N] [--fighters N] [--seed S]

  --store     where they fight (default fs); s3 is the store that NEXUS_TEST_S3_ENDPOINT names
  --minutes   how long (default 1)
  --fighters  how many processes want the session (default 8)
  --seed      of stops and kills; what the processes do meanwhile is chance`

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

let options: FightOptions | undefined
try {
  options = readOptions(process.argv.slice(2))
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n${USAGE}\n`)
  process.exitCode = 2
}
if (options !== undefined) {
  const dir = mkdtempSync(join(tmpdir(), 'nexus-fight-'))
  const { store, minutes, fighters, seed } = options
  say(`fight: ${fighters} processes for one session on ${store}, ${minutes} minutes, seed ${seed}`)
  const problems = await fight(options, dir, say)
  problems.slice(0, 20).forEach((problem) => say(`FAILED: ${problem}`))
  if (problems.length === 0) {
    rmSync(dir, { recursive: true, force: true })
    say('one chain, and every acknowledged turn in it')
  } else {
    say(`kept: ${dir}`)
    process.exitCode = 1
  }
}
