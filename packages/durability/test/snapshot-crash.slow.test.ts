import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { layoutOf } from './layout-of.ts'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { JournalReader } from '@nexus/journal'
import { ObjectStore } from '@nexus/objectstore'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { HYDRATE_FAILPOINTS } from '../src/boot/hydrate.ts'
import { hydrateSession, type HydrateResult } from '../src/boot/hydrate.ts'
import { readCommittedManifest } from '../src/mirror/manifest/read.ts'
import { SNAPSHOT_FAILPOINTS, takeSnapshot } from '../src/commit/snapshot.ts'
import { VERSIONED_FAILPOINTS } from '../src/versioned/failpoints.ts'
import { sweepStaging } from '../src/tree/staging.ts'
import { DirectoryBackend } from './directory-backend.ts'
import { describeTree } from './durability-fixture.ts'

let base: string
beforeAll(() => {
  base = mkdtempSync(join(tmpdir(), 'nexus-snapshot-crash-'))
})
afterAll(() => rmSync(base, { recursive: true }))

interface Place {
  root: string
  bucket: string
  store: ObjectStore
}

let places = 0
function place(): Place {
  const dir = join(base, String(++places))
  mkdirSync(join(dir, 'sessions'), { recursive: true })
  return { root: join(dir, 'sessions'), bucket: join(dir, 'bucket'), store: storeAt(join(dir, 'bucket')) }
}

function storeAt(bucket: string): ObjectStore {
  return new ObjectStore(new DirectoryBackend(bucket), { name: 'directory' })
}

async function runChild(
  action: string,
  { root, bucket }: Place,
  failpoint: string,
  pass: number,
): Promise<{ killed: boolean; output: string }> {
  const script = fileURLToPath(new URL('./snapshot-crash-child.ts', import.meta.url))
  const child = spawn(process.execPath, [...process.execArgv, script, action, root, bucket, failpoint, String(pass)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
  expect(signal === 'SIGKILL' || code === 0).toBe(true)
  return { killed: signal === 'SIGKILL', output }
}

function hydrate({ store }: Place, root: string, onMixed: 'warn' | 'fail' = 'warn'): Promise<HydrateResult> {
  mkdirSync(root, { recursive: true })
  return hydrateSession({
    layout: layoutOf(store, 's1'),
    sessionId: 's1',
    sessionsRoot: root,
    onMixed,
    prepareStaging: async (dir) => writeFileSync(join(dir, 'session.lock'), 'parent'),
  })
}

/** The session as generation `n` left it, but for what is named as mixed. */
async function expectGeneration(dir: string, n: number, mixed: readonly string[]): Promise<void> {
  const read = (path: string): string => readFileSync(join(dir, path), 'utf8')
  const turns = Array.from({ length: n }, (_, index) => index + 1)
  expect(read('context/conversation.jsonl')).toBe(turns.map((turn) => `turn ${turn}\n`).join(''))
  expect(readdirSync(join(dir, 'files')).toSorted()).toEqual([...turns.map((turn) => `new-${turn}`), 'rewritten'])
  expect(read('files/rewritten')).toBe(`generation ${mixed.includes('files/rewritten') ? 2 : n}`)
  const blobs = readdirSync(join(dir, 'blobs'), { recursive: true }).filter((name) => String(name).endsWith('.bin'))
  expect(blobs.map((name) => read(`blobs/${String(name)}`)).toSorted()).toEqual(turns.map((turn) => `blob of ${turn}`))

  const reader = await JournalReader.open(join(dir, 'journal'))
  const seqs: number[] = []
  for await (const { seq } of reader) seqs.push(seq)
  expect(seqs).toEqual(Array.from({ length: 4 * n }, (_, index) => index + 1))

  const database = join(dir, 'plugins/p/store.db')
  const copy = `${dir}-check.db`
  cpSync(database, copy)
  const db = new Database(copy)
  expect(db.pragma('integrity_check', { simple: true })).toBe('ok')
  const rows = db.prepare('select n from turns order by n').pluck().all()
  db.close()
  rmSync(copy)
  expect(rows).toEqual(mixed.includes('plugins/p/store.db') ? [1, 2] : turns)
}

const MAY_MIX = ['files/rewritten', 'plugins/p/store.db']
const OVERWRITING_FROM = SNAPSHOT_FAILPOINTS.indexOf('snapshot:object-stored')
const COMMITTED_FROM = SNAPSHOT_FAILPOINTS.indexOf('snapshot:manifest-put')

describe.concurrent('a process killed inside a snapshot', () => {
  const points = SNAPSHOT_FAILPOINTS.flatMap((name): [string, number][] =>
    name === 'snapshot:object-stored' ? [1, 8, 10].map((pass) => [name, pass]) : [[name, 1]],
  )
  it.each(points)('crash at %s, pass %i: an empty host gets one generation, whole', async (name, pass) => {
    const at = place()
    const { killed, output } = await runChild('snapshot', at, name, pass)
    expect([killed, output.trim()]).toEqual([true, 'committed 1'])

    const restored = join(at.root, '..', 'restored')
    const result = await hydrate(at, restored)
    const generation = SNAPSHOT_FAILPOINTS.indexOf(name) >= COMMITTED_FROM ? 2 : 1
    expect(result).toMatchObject({ outcome: 'hydrated', committed: { generation } })
    const mixed = result.mixed?.paths ?? []
    const mayMix = generation === 1 && SNAPSHOT_FAILPOINTS.indexOf(name) >= OVERWRITING_FROM ? MAY_MIX : []
    expect(mixed.filter((path) => !mayMix.includes(path))).toEqual([])
    await expectGeneration(join(restored, 's1'), generation, mixed)

    // The same host goes on: what the dead process left is swept, and one snapshot makes everything whole.
    const swept = await sweepStaging(at.root, () => false)
    expect(swept).toHaveLength(1)
    expect(readdirSync(at.root).filter((entry) => entry.startsWith('.snapshot'))).toEqual([])
    const committed = await readCommittedManifest(at.store, 's1', { scratchDir: at.root })
    await takeSnapshot({
      layout: layoutOf(at.store, 's1'),
      sessionId: 's1',
      sessionDir: join(restored, 's1'),
      sessionsRoot: restored,
      generation: 3,
      nonce: 'parent',
      instanceId: 'parent',
      sequence: 1,
      trigger: 'turn',
      beforeCommit: async () => undefined,
      ...(committed === undefined ? {} : { committed }),
    })
    const again = join(at.root, '..', 'again')
    expect((await hydrate(at, again, 'fail')).mixed).toBeUndefined()
    expect(describeTree(join(again, 's1'))).toEqual(describeTree(join(restored, 's1')))
  })

  it('has so many objects that every pass above is one', async () => {
    const at = place()
    const { killed, output } = await runChild('snapshot', at, 'snapshot:object-stored', 1000)
    expect([killed, output]).toEqual([false, 'committed 1\ncommitted 2\n'])
    const manifest = await readCommittedManifest(at.store, 's1', { scratchDir: at.root })
    // The first blob and its metadata are skipped.
    expect(manifest?.objects.length).toBe(12)
  })
})

describe('a process killed inside a hydration', () => {
  let source: Place
  beforeAll(async () => {
    source = place()
    await runChild('snapshot', source, 'none', 1)
  })

  const points = HYDRATE_FAILPOINTS.flatMap((name): [string, number][] =>
    name === 'hydrate:object-fetched' ? [1, 6].map((pass) => [name, pass]) : [[name, 1]],
  )
  it.concurrent.each(points)('crash at %s, pass %i: the tree is there whole, or not at all', async (name, pass) => {
    const at = { ...source, root: join(source.root, '..', `${name.replace(':', '-')}-${pass}`) }
    mkdirSync(at.root)
    const { killed, output } = await runChild('hydrate', at, name, pass)
    expect([killed, output]).toEqual([true, ''])
    const staged = readdirSync(at.root).filter((entry) => entry.startsWith('.hydrating-s1-'))
    const isThere = name === 'hydrate:renamed'
    expect([staged.length, existsSync(join(at.root, 's1'))]).toEqual(isThere ? [0, true] : [1, false])
    const locked = join(at.root, staged[0] ?? 's1', 'session.lock')
    expect(existsSync(locked)).toBe(name !== 'hydrate:staging-made')
    // What it left stands in nobody's way, and is gone after a sweep.
    if (!isThere) await hydrate(at, at.root, 'fail')
    await expectGeneration(join(at.root, 's1'), 2, [])
    await sweepStaging(at.root, ({ sessionId, kind }) => sessionId !== 's1' || kind !== 'hydrating')
    expect(readdirSync(at.root)).toEqual(['s1'])
  })
})

describe('failpoints', () => {
  it('in the sources of snapshot and hydration are all listed, and all that are listed are there', () => {
    const dir = fileURLToPath(new URL('../src/', import.meta.url))
    const found = new Set<string>()
    for (const file of readdirSync(dir, { recursive: true, encoding: 'utf8' })) {
      if (!file.endsWith('.ts') || file.endsWith('.test.ts')) continue
      for (const [, name] of readFileSync(join(dir, file), 'utf8').matchAll(
        /failpoint\('((?:snapshot|hydrate):[a-z-]+)'\)/g,
      ))
        found.add(name ?? '')
    }
    const versioned = VERSIONED_FAILPOINTS.filter((name) => name.startsWith('snapshot:'))
    expect([...found].toSorted()).toEqual([...SNAPSHOT_FAILPOINTS, ...HYDRATE_FAILPOINTS, ...versioned].toSorted())
  })
})
