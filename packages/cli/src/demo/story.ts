import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { compareFingerprints, type Check } from './compare.ts'
import { FULL_TEXT_QUERY, type HostOrder, type LayoutName } from './host-order.ts'
import { COMPLETED_TURNS } from './librarian.ts'
import { lastReport, runHost, type HostRun } from './run-host.ts'

/** What the demo is told. */
export interface StoryOptions {
  /** An empty directory that holds both hosts and the bucket. */
  dir: string
  seed: number
  backendName: string
  backendModule: string
  layout: LayoutName
  onTurn: (turn: { turn: number; turns: number; durationMs: number; bytesUploaded: number }) => void
  onStep: (text: string) => void
}

/** How it ended. */
export interface Story {
  sessionId: string
  checks: Check[]
  ok: boolean
  /** Boot on the second host: hydration, verification, plugins. Milliseconds. */
  bootMs: number
  /** From the start of the second process to the end of its first turn. Milliseconds. */
  firstTurnMs: number
}

function sessionIdOf({ seed }: StoryOptions): string {
  return `demo-${seed}`
}

function orderFor(options: StoryOptions, role: HostOrder['role'], host: string): HostOrder {
  return {
    role,
    sessionId: sessionIdOf(options),
    dataRoot: join(options.dir, host),
    backend: {
      name: options.backendName,
      bucket: join(options.dir, 'bucket'),
      module: options.backendModule,
      layout: options.layout,
    },
    seed: options.seed,
    turns: COMPLETED_TURNS,
    rotateSizeMb: 4,
    hangInLastTurn: role === 'work',
  }
}

function failureOf(run: HostRun, host: string): Error {
  const end = run.signal ?? `exit code ${run.exitCode}`
  return new Error(`${host} ended with ${end} before it reported what was expected\n${run.stderr}`.trim())
}

function lostWrites(options: StoryOptions, unfinished: readonly string[]): Check {
  const sessionDir = join(options.dir, 'host-b', 'sessions', sessionIdOf(options))
  const kept = unfinished.filter((path) => existsSync(join(sessionDir, path)))
  return {
    what: 'writes after the last boundary',
    found: kept.length === 0 ? 'rightly lost' : `still there: ${kept.join(', ')}`,
    ok: kept.length === 0,
  }
}

/**
 * Runs the whole story: host A completes turns and is killed inside the next one; host B, with an empty disk, resumes.
 *
 * @throws when a host ends without having reported what was expected; a difference is a failed check, not an error
 */
export async function tellStory(options: StoryOptions): Promise<Story> {
  mkdirSync(join(options.dir, 'bucket'))
  const killed = await runHost(orderFor(options, 'work', 'host-a'), (report, child) => {
    if (report.kind === 'committed') options.onTurn({ ...report, turns: COMPLETED_TURNS })
    if (report.kind === 'mid-turn') child.kill('SIGKILL')
  })
  const expected = lastReport(killed, 'proposed')?.fingerprint
  const midTurn = lastReport(killed, 'mid-turn')
  if (expected === undefined || midTurn === undefined || killed.signal !== 'SIGKILL') throw failureOf(killed, 'host A')
  options.onStep(`host A killed with SIGKILL in the middle of turn ${midTurn.turn}`)

  const run = await runHost(orderFor(options, 'resume', 'host-b'))
  const resumed = lastReport(run, 'resumed')
  const booted = lastReport(run, 'booted')
  if (resumed === undefined || booted === undefined || lastReport(run, 'done') === undefined)
    throw failureOf(run, 'host B')
  options.onStep('host B resumed from the bucket with an empty data root')

  const { evidence } = resumed
  const checks: Check[] = [
    ...compareFingerprints(expected, resumed.fingerprint),
    { what: 'integrity_check', found: evidence.integrity, ok: evidence.integrity === 'ok' },
    {
      what: `full-text query "${FULL_TEXT_QUERY}"`,
      found: evidence.answer || 'no answer',
      ok: evidence.answer !== '',
    },
    {
      what: 'journal',
      found: `${evidence.journalEvents} events, ${evidence.journalDamage} damaged`,
      ok: evidence.journalEvents > 0 && evidence.journalDamage === 0,
    },
    lostWrites(options, midTurn.unfinished),
  ]
  return {
    sessionId: sessionIdOf(options),
    checks,
    ok: checks.every((check) => check.ok),
    bootMs: booted.bootMs,
    firstTurnMs: evidence.firstTurnMs,
  }
}
