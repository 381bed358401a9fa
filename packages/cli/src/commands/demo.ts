import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Command, InvalidArgumentError, Option } from '@commander-js/extra-typings'
import { COMPLETED_TURNS } from '../demo/librarian.ts'
import { tellStory, type Story } from '../demo/story.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { LAYOUTS, type LayoutName } from '../demo/host-order.ts'
import type { Frame } from '../frame/frame.ts'
import { formatBytes, progressBar, table, type Output } from '../output.ts'
import { UsageError } from '../usage-error.ts'

/** Adds `nexus demo`: its exit code is 0 only when nothing differs. */
export function demoCommand(program: Command, frame: Frame): void {
  program
    .command('demo')
    .summary('kill a session in the middle of a turn and resume it elsewhere')
    .description(
      `Runs a session of ${COMPLETED_TURNS} turns over real documents in one process, kills it with SIGKILL inside the next turn, resumes the session in a second process with an empty disk, and compares.`,
    )
    .option('--backend <name>', 'the name that the backend of --import registers under', 'fs')
    .addOption(
      new Option('--layout <name>', 'how the session lies in the bucket').choices(LAYOUTS).default('mirror' as const),
    )
    .addOption(
      new Option('--seed <n>', "what the run's random content is made of (default: the time)").argParser(seedOf),
    )
    .option('--keep', 'leave both hosts and the bucket on disk and say where', false)
    .action(
      async (options) => await frame.run(async ({ globals, output }) => await demo({ ...globals, ...options }, output)),
    )
}

function seedOf(text: string): number {
  const seed = Number(text)
  if (text.trim() === '' || !Number.isSafeInteger(seed) || seed < 0)
    throw new InvalidArgumentError('It must be a whole number from 0.')
  return seed
}

function printStory(story: Story, output: Output): void {
  const rows = story.checks.map(({ what, found, ok }) => [ok ? 'ok' : 'DIFFERS', what, found])
  output.line('')
  for (const line of table([['', 'compared', 'on host B'], ...rows])) output.line(line)
  output.line('')
  output.line(
    `boot on host B ${story.bootMs.toFixed(0)} ms; first turn done ${story.firstTurnMs.toFixed(0)} ms after its process began`,
  )
  output.line(
    story.ok ? 'Everything the last completed turn left came back.' : 'The resumed session is NOT what was committed.',
  )
}

interface DemoOptions {
  import: readonly string[]
  backend: string
  layout: LayoutName
  seed?: number | undefined
  keep: boolean
  json: boolean
}

async function demo(options: DemoOptions, output: Output): Promise<ExitCode> {
  const { import: modules, backend: backendName, layout, seed = Date.now() % 1_000_000, keep, json } = options
  const [backendModule, ...others] = modules
  if (backendModule === undefined || others.length > 0) {
    throw new UsageError('demo needs one --import <module>: the object-store backend, e.g. @nexus/objectstore-fs')
  }
  const say = json ? output.note : output.line
  const dir = mkdtempSync(join(tmpdir(), 'nexus-demo-'))
  say(`nexus demo --seed ${seed}: host A works, is killed, host B resumes`)
  try {
    const story = await tellStory({
      dir,
      seed,
      backendName,
      backendModule,
      layout,
      onStep: say,
      onTurn: ({ turn, turns, durationMs, bytesUploaded }) => {
        const cost = `snapshot ${durationMs.toFixed(0)} ms, ${formatBytes(bytesUploaded)} uploaded`
        say(`host A ${progressBar(turn, turns)} turn ${turn} of ${turns} committed (${cost})`)
      },
    })
    if (json) output.line(JSON.stringify({ ...story, seed, dir: keep ? dir : undefined }))
    else printStory(story, output)
    return story.ok ? EXIT.ok : EXIT.failed
  } finally {
    if (keep) say(`kept: ${dir}`)
    else rmSync(dir, { recursive: true, force: true })
  }
}
