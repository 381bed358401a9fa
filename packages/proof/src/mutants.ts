import { availableParallelism } from 'node:os'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { MUTANTS } from './mutants/catalog.ts'
import type { Mutant } from './mutants/mutant.ts'
import { checkTests, judgeMutant, type MutantVerdict } from './mutation/judge-mutant.ts'
import { inLanes } from './mutation/lanes.ts'
import { WorkspaceCopy } from './mutation/workspace-copy.ts'
import { REPOSITORY_ROOT } from './repository-root.ts'

const USAGE = `usage: pnpm mutants [--only id,id] [--quarter N] [--every] [--lanes N]

  --quarter N  every fourth mutant only, N modulo 4 of them: four numbers in a row make all
  --every      each test that a mutant names must fail, not only one of them`

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

function chosen(only: string | undefined, quarter: string | undefined): readonly Mutant[] {
  if (quarter !== undefined) {
    if (!/^\d+$/.test(quarter)) throw new Error(`--quarter ${quarter} is not a whole number`)
    return MUTANTS.filter((_, index) => index % 4 === Number(quarter) % 4)
  }
  if (only === undefined) return MUTANTS
  const ids = only.split(',').map((id) => id.trim())
  const unknown = ids.find((id) => !MUTANTS.some((mutant) => mutant.id === id))
  if (unknown !== undefined) throw new Error(`there is no mutant ${unknown}`)
  return MUTANTS.filter(({ id }) => ids.includes(id))
}

function tell({ mutant, verdict, detail, durationMs }: MutantVerdict, width: number): void {
  const took = `${(durationMs / 1000).toFixed(1)} s`
  say(`${verdict.padEnd(8)}  ${mutant.id.padEnd(width)}  ${took.padStart(6)}  ${detail || mutant.breaks}`)
}

async function judgeAll(mutants: readonly Mutant[], laneCount: number, every: boolean): Promise<boolean> {
  const startedMs = performance.now()
  const lanes = Array.from({ length: laneCount }, () => new WorkspaceCopy(REPOSITORY_ROOT))
  try {
    const [first] = lanes
    if (first === undefined) return false
    const problems = await checkTests(mutants, first, laneCount)
    problems.forEach(say)
    if (problems.length > 0) return false
    say(`their tests pass on unbroken code (${seconds(startedMs)})`)
    const width = Math.max(...mutants.map(({ id }) => id.length))
    const verdicts = await inLanes(lanes, mutants, async (mutant, copy) => {
      const verdict = await judgeMutant(mutant, copy, every)
      tell(verdict, width)
      return verdict
    })
    const missed = verdicts.filter(({ verdict }) => verdict !== 'caught')
    for (const { mutant, verdict } of missed) say(`${verdict}: ${mutant.id}, which ${mutant.breaks} (${mutant.file})`)
    say(`${mutants.length - missed.length} of ${mutants.length} mutants were caught (${seconds(startedMs)})`)
    return missed.length === 0
  } finally {
    for (const lane of lanes) lane.remove()
  }
}

function seconds(sinceMs: number): string {
  return `${Math.round((performance.now() - sinceMs) / 1000)} s`
}

async function main(): Promise<boolean> {
  const { values } = parseArgs({
    // pnpm hands its own separator on.
    args: process.argv.slice(2).filter((arg) => arg !== '--'),
    options: {
      only: { type: 'string' },
      quarter: { type: 'string' },
      every: { type: 'boolean', default: false },
      lanes: { type: 'string', default: String(Math.min(4, availableParallelism())) },
    },
  })
  const mutants = chosen(values.only, values.quarter)
  say(`${mutants.length} mutants of the durability code, ${values.lanes} at a time`)
  return await judgeAll(mutants, Number(values.lanes), values.every)
}

try {
  process.exitCode = (await main()) ? 0 : 1
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n${USAGE}\n`)
  process.exitCode = 2
}
