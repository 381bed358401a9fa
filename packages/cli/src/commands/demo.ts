import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { COMPLETED_TURNS } from '../demo/librarian.ts'
import { tellStory, type Story } from '../demo/story.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import { formatBytes, progressBar, table, type Output } from '../output.ts'
import { UsageError } from '../usage-error.ts'

export const DEMO_USAGE: string = `nexus demo --import MODULE [--backend NAME] [--seed N] [--keep] [--json]

Runs a session of ${COMPLETED_TURNS} turns over real documents in one process, kills it with SIGKILL inside the next turn,
resumes the session in a second process with an empty disk, and compares.

  --import MODULE  the object-store backend to load, a package name or a path
  --backend NAME   the name it registers under (default: fs)
  --seed N         what the run's random content is made of (default: the time)
  --keep           leave both hosts and the bucket on disk and say where
  --json           print the result as one JSON object`

interface DemoArguments {
  backendModule: string
  backendName: string
  seed: number
  keep: boolean
  json: boolean
}

function parse(args: readonly string[]): DemoArguments {
  const { values } = parseArgs({
    args: [...args],
    options: {
      import: { type: 'string' },
      backend: { type: 'string', default: 'fs' },
      seed: { type: 'string' },
      keep: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    },
  })
  if (values.import === undefined) {
    throw new UsageError('--import MODULE is required: a backend to store the session in, e.g. @nexus/objectstore-fs')
  }
  const seed = values.seed === undefined ? Date.now() % 1_000_000 : Number(values.seed)
  if (!Number.isSafeInteger(seed) || seed < 0)
    throw new UsageError(`--seed must be a whole number from 0, not "${values.seed}"`)
  return { backendModule: values.import, backendName: values.backend, seed, keep: values.keep, json: values.json }
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

/** `nexus demo`: exit code 0 only when nothing differs. */
export async function demo(args: readonly string[], output: Output): Promise<ExitCode> {
  const { backendModule, backendName, seed, keep, json } = parse(args)
  const say = json ? output.note : output.line
  const dir = mkdtempSync(join(tmpdir(), 'nexus-demo-'))
  say(`nexus demo --seed ${seed}: host A works, is killed, host B resumes`)
  try {
    const story = await tellStory({
      dir,
      seed,
      backendName,
      backendModule,
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
