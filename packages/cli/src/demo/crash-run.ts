import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { compareFingerprints, type Check } from './compare.ts'
import { DATABASE_PATH, emptyFingerprint, type Fingerprint } from './fingerprint.ts'
import { NO_MANIFEST, type HostOrder, type LayoutName } from './host-order.ts'
import { lastReport, runHost, type HostRun } from './run-host.ts'
import { seededRandom, type Random } from './seeded-random.ts'

/** Where and how a crash run kills. */
export type Kill =
  | { how: 'time'; afterMs: number }
  | { how: 'failpoint'; failpoint: string; visit: number }
  /** Host A is killed by time; then the first resume dies at a failpoint of the hydration, and a second one follows. */
  | { how: 'hydration'; afterMs: number; failpoint: string; visit: number }

/** What a crash run found. */
export interface CrashRun {
  seed: number
  kill: Kill
  /** Whether host A really died of it; a failpoint may not be reached. */
  killed: boolean
  /** Turns whose commit host A had been told of. */
  acknowledged: number
  /** Turns that the resumed host has. */
  resumed: number
  /** Paths reported as mixed: the known boundary of the mirror layout. */
  mixed: string[]
  /** Empty when all is well. */
  problems: string[]
}

/** Failpoint names to choose from, by what they belong to. */
export interface CrashFailpoints {
  working: readonly string[]
  hydration: readonly string[]
}

/** So many turns that every kill by time falls into one. */
const TURNS = 40
/** Small enough that a run rotates its journal several times. */
const ROTATE_SIZE_MB = 0.02
const LONGEST_WORK_MS = 2_500

function pick<T>(items: readonly T[], random: Random): T {
  return items[Math.floor(random() * items.length)] as T
}

/** Chooses a kill; the same seed gives the same one. */
export function chooseKill(seed: number, failpoints: CrashFailpoints): Kill {
  const random = seededRandom(seed)
  const roll = random()
  const afterMs = Math.floor(random() * LONGEST_WORK_MS)
  const visit = 1 + Math.floor(random() * 6)
  if (roll < 0.4) return { how: 'time', afterMs }
  if (roll < 0.8) return { how: 'failpoint', failpoint: pick(failpoints.working, random), visit }
  return { how: 'hydration', afterMs, failpoint: pick(failpoints.hydration, random), visit: 1 }
}

/** The bucket of a crash run. */
export interface CrashBackend {
  module: string
  layout: LayoutName
}

function orderFor(dir: string, seed: number, role: HostOrder['role'], host: string, backend: CrashBackend): HostOrder {
  return {
    role,
    sessionId: `crash-${seed}`,
    dataRoot: join(dir, host),
    backend: { name: 'fs', bucket: join(dir, 'bucket'), ...backend },
    seed,
    turns: TURNS,
    rotateSizeMb: ROTATE_SIZE_MB,
    hangInLastTurn: false,
  }
}

async function workUntilKilled(order: HostOrder, kill: Kill): Promise<HostRun> {
  if (kill.how === 'failpoint') return await runHost({ ...order, killAt: kill })
  let timer: NodeJS.Timeout | undefined
  try {
    return await runHost(order, (report, child) => {
      if (report.kind === 'booted') timer = setTimeout(() => child.kill('SIGKILL'), kill.afterMs)
    })
  } finally {
    clearTimeout(timer)
  }
}

/** What the store may hold: the last acknowledged turn, or the next one when it was committed but not yet reported. */
function candidates(run: HostRun): { acknowledged: number; states: Fingerprint[] } {
  const acknowledged = lastReport(run, 'committed')?.turn ?? 0
  const proposals = run.reports.filter((report) => report.kind === 'proposed')
  const of = (turn: number): Fingerprint | undefined => proposals.find((each) => each.turn === turn)?.fingerprint
  const states = [acknowledged === 0 ? emptyFingerprint() : of(acknowledged), of(acknowledged + 1)]
  return { acknowledged, states: states.filter((state) => state !== undefined) }
}

/** An object that was overwritten in place: the dying generation's bytes under the committed mode and time. */
function overwritten(committed: string, dying: string): string {
  const [mode, , time] = committed.split(' ')
  const [, size, , digest] = dying.split(' ')
  return [mode, size, time, digest].join(' ')
}

/** The committed state, with what is reported as mixed taken from the state that was being stored when the host died. */
function blend(committed: Fingerprint, dying: Fingerprint | undefined, mixed: readonly string[]): Fingerprint {
  if (dying === undefined) return committed
  const files = { ...committed.files }
  for (const path of mixed) {
    const relative = path.startsWith('files/') ? path.slice('files/'.length) : undefined
    const [before, after] = relative === undefined ? [] : [committed.files[relative], dying.files[relative]]
    if (relative !== undefined && before !== undefined && after !== undefined)
      files[relative] = overwritten(before, after)
  }
  const isMixed = (path: string): boolean => mixed.includes(path)
  return {
    ...committed,
    files,
    history: isMixed('context/conversation.jsonl') ? dying.history : committed.history,
    ...(isMixed(DATABASE_PATH) ? { tables: dying.tables, turns: dying.turns, blobs: dying.blobs } : {}),
  }
}

function differences(run: HostRun, resumed: Fingerprint, mixed: readonly string[]): string[] {
  const { states } = candidates(run)
  const accepted = states.map((state, index) => blend(state, states[index + 1], index === 0 ? mixed : []))
  const verdicts = accepted.map((state) => compareFingerprints(state, resumed).filter((check) => !check.ok))
  if (verdicts.some((failed) => failed.length === 0)) return []
  const closest = verdicts.toSorted((a, b) => a.length - b.length)[0] ?? []
  return closest.map((check: Check) => `${check.what}: ${check.found}`)
}

/** Runs one seed: work, kill, resume, compare. Never throws for what it finds; `problems` says it. */
export async function crashOnce(
  dir: string,
  seed: number,
  backend: CrashBackend,
  failpoints: CrashFailpoints,
): Promise<CrashRun> {
  mkdirSync(join(dir, 'bucket'), { recursive: true })
  const kill = chooseKill(seed, failpoints)
  const worked = await workUntilKilled(orderFor(dir, seed, 'work', 'host-a', backend), kill)
  const killed = worked.signal === 'SIGKILL'
  const found: CrashRun = {
    seed,
    kill,
    killed,
    acknowledged: candidates(worked).acknowledged,
    resumed: 0,
    mixed: [],
    problems: [],
  }
  if (!killed && worked.exitCode !== 0)
    found.problems.push(`host A ended with exit code ${worked.exitCode}: ${worked.stderr}`)

  const resumeOrder = orderFor(dir, seed, 'resume', 'host-b', backend)
  const first = kill.how === 'hydration' ? await runHost({ ...resumeOrder, killAt: kill }) : undefined
  // A resume that didn't come by its failpoint is the resume: a second one would find its turn.
  const run = first === undefined || first.signal === 'SIGKILL' ? await runHost(resumeOrder) : first
  const resumed = lastReport(run, 'resumed')
  if (resumed === undefined) {
    found.problems.push(`host B did not resume (${run.signal ?? run.exitCode}): ${run.stderr}`)
    return found
  }
  found.resumed = resumed.turns
  found.mixed = resumed.mixed
  // Nothing that a commit names is ever overwritten there.
  if (backend.layout === 'versioned' && found.mixed.length > 0)
    found.problems.push(`mixed under the versioned layout: ${found.mixed.join(', ')}`)
  if (!found.mixed.includes(NO_MANIFEST)) {
    found.problems.push(...differences(worked, resumed.fingerprint, found.mixed))
  } else if (found.acknowledged > 0) found.problems.push('the manifest of an acknowledged commit is gone')
  if (resumed.evidence.integrity !== 'ok') found.problems.push(`integrity_check: ${resumed.evidence.integrity}`)
  if (resumed.evidence.journalDamage > 0) found.problems.push(`${resumed.evidence.journalDamage} damaged journal lines`)
  if (lastReport(run, 'done') === undefined) found.problems.push(`host B did not stop: ${run.stderr}`)
  return found
}
