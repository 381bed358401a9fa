import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { BENCHES } from './catalog.ts'
import { describeMachine, measureMachine } from './machine.ts'
import { readOptions, USAGE, type BenchOptions } from './options.ts'
import { renderJson, renderMarkdown, renderTable } from './report.ts'
import type { Row } from './row.ts'
import { Scratch } from './scratch.ts'

async function main(options: BenchOptions): Promise<void> {
  exposeGarbageCollector()
  const scratch = new Scratch()
  const rows: Row[] = []
  const startMs = performance.now()
  try {
    const machine = await measureMachine()
    progress(describeMachine(machine))
    for (const bench of BENCHES) {
      if (options.only !== undefined && !options.only.includes(bench.id)) continue
      const beganMs = performance.now()
      rows.push(...(await bench.run({ scratch, quick: options.quick })))
      progress(`${bench.id} ${bench.title}: ${secondsSince(beganMs).toFixed(1)} s`)
    }
    const about = { date: new Date().toISOString().slice(0, 10), quick: options.quick, ...machine }
    process.stdout.write(`${render(rows, options, about)}\n`)
  } finally {
    scratch.remove()
  }
  progress(`${secondsSince(startMs).toFixed(0)} s in all${options.quick ? '; quick: not to judge by' : ''}`)
}

function render(rows: readonly Row[], { format }: BenchOptions, about: Record<string, unknown>): string {
  if (format === 'json') return renderJson(rows, about)
  return format === 'markdown' ? renderMarkdown(rows) : renderTable(rows)
}

function secondsSince(startMs: number): number {
  return (performance.now() - startMs) / 1000
}

// Without a flag on the command line, which `pnpm bench` would have to give.
function exposeGarbageCollector(): void {
  setFlagsFromString('--expose-gc')
  globalThis.gc = runInNewContext('gc') as NonNullable<typeof globalThis.gc>
}

// Beside the table, so that the output can be piped.
function progress(text: string): void {
  process.stderr.write(`${text}\n`)
}

let options: BenchOptions | undefined
try {
  options = readOptions(
    process.argv.slice(2),
    BENCHES.map(({ id }) => id),
  )
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n${USAGE}\n`)
  process.exitCode = 2
}
if (options !== undefined) await main(options)
