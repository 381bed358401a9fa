import { availableParallelism } from 'node:os'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { BENCHES } from './catalog.ts'
import { readOptions, USAGE, type BenchOptions } from './options.ts'
import { renderJson, renderMarkdown, renderTable } from './report.ts'
import type { Row } from './row.ts'
import { Scratch } from './scratch.ts'
import { withStall } from './stall.ts'

const REST_MS = 200

async function main(options: BenchOptions): Promise<void> {
  setFlagsFromString('--expose-gc')
  globalThis.gc = runInNewContext('gc') as NonNullable<typeof globalThis.gc>
  const scratch = new Scratch()
  const rows: Row[] = []
  const startMs = performance.now()
  try {
    const { stallMs } = await withStall(() => new Promise((resolve) => setTimeout(resolve, REST_MS)))
    progress(`event loop at rest: longest gap ${stallMs.toFixed(1)} ms`)
    for (const bench of BENCHES) {
      if (options.only !== undefined && !options.only.includes(bench.id)) continue
      progress(`${bench.id} ${bench.title}`)
      const beganMs = performance.now()
      rows.push(...(await bench.run({ scratch, quick: options.quick })))
      progress(`${bench.id} took ${((performance.now() - beganMs) / 1000).toFixed(1)} s`)
    }
    const seconds = Math.round((performance.now() - startMs) / 1000)
    const about = {
      date: new Date().toISOString().slice(0, 10),
      node: process.version,
      cpus: availableParallelism(),
      quick: options.quick,
      seconds,
      stallAtRestMs: stallMs,
    }
    process.stdout.write(`${render(rows, options, about)}\n`)
    progress(
      `Node ${process.version}, ${about.cpus} CPUs, ${seconds} s${options.quick ? ', quick: not to judge by' : ''}`,
    )
  } finally {
    scratch.remove()
  }
}

function render(rows: readonly Row[], { format }: BenchOptions, about: Record<string, unknown>): string {
  if (format === 'json') return renderJson(rows, about)
  return format === 'markdown' ? renderMarkdown(rows) : renderTable(rows)
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
