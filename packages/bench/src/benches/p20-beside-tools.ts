import { randomFillSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Bench } from '../bench.ts'
import { BenchSession } from '../bench-session.ts'
import { billed, openCountingProxy, type CountingProxy } from '../counting-proxy.ts'
import { prepareEngine } from '../local-engine.ts'
import { alternate, compare, elapsedMs, median, type Sample } from '../measure.ts'
import { against, ratioAtMost, type Row } from '../row.ts'
import { createS3Bucket, s3Core, type S3Store } from '../s3-store.ts'
import type { Scratch } from '../scratch.ts'
import { LARGE, SMALL, type SessionShape } from '../session-shape.ts'
import { syncTools, type SyncTool } from '../sync-tools.ts'

const LAYOUTS = ['versioned', 'mirror'] as const
type Layout = (typeof LAYOUTS)[number]

/** How many times faster than each program the versioned layout is meant to be. */
const GOALS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  turn: { 'aws s3 sync': 20, 'rclone sync': 15, restic: 50 },
  'first commit': { 'aws s3 sync': 4, restic: 2 },
  resume: { 'aws s3 sync': 4, restic: 1.5 },
}

/** A turn, a first commit and a resume on a real store, beside programs that keep directories in buckets. */
export const besideToolsBench: Bench = {
  id: 'P20',
  title: 'beside sync and backup programs',
  async run({ scratch, quick }) {
    const store = await createS3Bucket(scratch.dir('p20'))
    if (store === undefined) {
      process.stderr.write('P20 needs a store: NEXUS_TEST_S3_ENDPOINT names none\n')
      return []
    }
    const shape = quick ? SMALL : LARGE
    const timed = await timedRows({ store, scratch, shape, rounds: quick ? 1 : 3 })
    return [...timed, ...(await countedRows({ store, scratch, shape, rounds: quick ? 1 : 5 }))]
  },
}

interface Setting {
  store: S3Store
  scratch: Scratch
  shape: SessionShape
  rounds: number
}

async function timedRows(setting: Setting): Promise<Row[]> {
  const { store, scratch, shape, rounds } = setting
  const sessions = new Map<Layout, BenchSession>()
  const tools = new Map<string, SyncTool>()
  const names = syncTools(store, scratch, '').map(({ name }) => name)
  let repositories = 0
  const begin = async (layout: Layout): Promise<number> => {
    await sessions.get(layout)?.engine.stop()
    const session = await openSession(setting, layout)
    sessions.set(layout, session)
    return session.grow(shape)
  }
  const beginTool = async (name: string): Promise<number> => {
    const tool = syncTools(store, scratch, `${++repositories}/`).find((each) => each.name === name) as SyncTool
    tools.set(name, tool)
    await tool.prepare()
    return elapsedMs(() => tool.store(dirOf(sessions)))
  }
  // Layouts come first in the first round, so that the programs have something to store.
  const first = await alternate(contenders(names, begin, beginTool), { rounds })
  const turn = await alternate(
    contenders(
      names,
      (layout) => turnMs(sessions.get(layout) as BenchSession),
      (name) => elapsedMs(() => tools.get(name)?.store(dirOf(sessions))),
    ),
    { rounds: rounds + 2 },
  )
  for (const session of sessions.values()) await session.engine.stop()
  const resume = await alternate(
    contenders(
      names,
      (layout) => resumeMs(setting, layout, (sessions.get(layout) as BenchSession).engine.sessionId),
      (name) => elapsedMs(() => tools.get(name)?.restore(scratch.dir('p20-restored'))),
    ),
    { rounds },
  )
  return Object.entries({ turn, 'first commit': first, resume }).flatMap(([what, samples]) =>
    timedComparison(what, shape, samples),
  )
}

function contenders(
  tools: readonly string[],
  ours: (layout: Layout) => Promise<number>,
  theirs: (tool: string) => Promise<number>,
): Record<string, Sample> {
  return Object.fromEntries([
    ...LAYOUTS.map((layout) => [layout, () => ours(layout)]),
    ...tools.map((tool) => [tool, () => theirs(tool)]),
  ]) as Record<string, Sample>
}

function timedComparison(what: string, shape: SessionShape, samples: Record<string, number[]>): Row[] {
  return Object.entries(samples).flatMap(([name, theirs]): Row[] => {
    if (name === 'versioned') return []
    const times = GOALS[what]?.[name]
    return [
      {
        id: 'P20',
        what: `${what}, versioned, ${shape.what}`,
        unit: 'ms',
        ...against(name, compare(samples['versioned'] as number[], theirs)),
        goals: times === undefined ? [] : [ratioAtMost(Number((1 / times).toFixed(3)))],
      },
    ]
  })
}

/** Requests and bytes of a steady turn; counted apart, since counting takes time. */
async function countedRows(setting: Setting): Promise<Row[]> {
  const proxy = await openCountingProxy(setting.store.endpoint)
  const through = { ...setting, store: { ...setting.store, endpoint: proxy.url } }
  const rows: Row[] = []
  for (const layout of LAYOUTS) {
    const session = await openSession(through, layout)
    await session.grow(setting.shape)
    rows.push(...(await countedTurns(layout, through, proxy, () => turnMs(session))))
    await session.engine.stop()
  }
  const session = await openSession(setting, 'versioned')
  await session.grow(setting.shape)
  const { dir } = session.engine.session
  for (const tool of syncTools(through.store, setting.scratch, 'counted/')) {
    await tool.prepare()
    await tool.store(dir)
    const turn = async (): Promise<void> => {
      await turnMs(session)
      await tool.store(dir)
    }
    rows.push(...(await countedTurns(tool.name, through, proxy, turn)))
  }
  await session.engine.stop()
  await proxy.close()
  return rows
}

async function countedTurns(
  name: string,
  { shape, rounds }: Setting,
  proxy: CountingProxy,
  turn: () => Promise<unknown>,
): Promise<Row[]> {
  await turn()
  proxy.take()
  const counts: { dear: number; cheap: number; sentKiB: number; receivedKiB: number }[] = []
  for (let round = 0; round < rounds; round++) {
    await turn()
    const traffic = proxy.take()
    const { sentBytes, receivedBytes } = traffic
    counts.push({ ...billed(traffic), sentKiB: sentBytes / 1024, receivedKiB: receivedBytes / 1024 })
  }
  const middle = (of: keyof (typeof counts)[number]): number => median(counts.map((count) => count[of]))
  const row = (what: string, unit: Row['unit'], ours: number): Row => ({
    id: 'P20',
    what: `${what} of a turn, ${name}, ${shape.what}`,
    unit,
    ours,
    goals: [],
  })
  return [
    row('writes and listings', 'requests', middle('dear')),
    row('reads', 'requests', middle('cheap')),
    row('sent', 'KiB', middle('sentKiB')),
    row('received', 'KiB', middle('receivedKiB')),
  ]
}

function dirOf(sessions: ReadonlyMap<Layout, BenchSession>): string {
  return (sessions.get('versioned') as BenchSession).engine.session.dir
}

async function openSession({ store, scratch }: Setting, layout: Layout): Promise<BenchSession> {
  return await BenchSession.open({ root: scratch.dir(`p20-${layout}`), core: coreOf(store, layout) })
}

function coreOf(store: S3Store, layout: Layout): ReturnType<typeof s3Core> {
  const core = s3Core(store)
  return { ...core, object_store: { ...core.object_store, layout } }
}

/** One file, a row, a line of the conversation and the journal change; only the commit is timed. */
async function turnMs(session: BenchSession): Promise<number> {
  await session.work()
  const path = join(session.engine.session.dir, 'files', '0', '0.bin')
  writeFileSync(path, randomFillSync(Buffer.alloc(64 * 1024)))
  return elapsedMs(() => session.endTurn())
}

async function resumeMs({ store, scratch }: Setting, layout: Layout, sessionId: string): Promise<number> {
  const engine = await prepareEngine({
    root: scratch.dir('p20-host'),
    core: coreOf(store, layout),
    engine: { recallSessionId: sessionId },
  })
  const wallMs = await elapsedMs(() => engine.boot())
  await engine.abandon()
  await engine.stop()
  return wallMs
}
