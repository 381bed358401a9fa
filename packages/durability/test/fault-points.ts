import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type LayoutName, layoutOf, versionedOf } from './layout-of.ts'
import { BlobStore } from '@nexus/blobs'
import { JournalReader } from '@nexus/journal'
import type { Capability, MemoryBackend } from '@nexus/objectstore-memory-test'
import Database from 'better-sqlite3'
import { hydrateSession, type HydrateResult } from '../src/boot/hydrate.ts'
import type { FailurePolicy } from '../src/events/table.ts'
import { SESSION_RECORD_PATH } from '../src/tree/names.ts'
import { newDir, newStore, sha256 } from './memory-store.ts'
import { fingerprint, TestHost } from './test-host.ts'
import type { WriteBackBackend } from './write-back-bucket.ts'

/**
 * What happens at one call of the backend.
 *
 * - `fails`: it does nothing and rejects. `answer-lost`: it takes effect and rejects. `hangs`: it does nothing and never
 *   answers.
 * - `dies-before`, `dies-after`: the process is gone, with the call without or with effect. `loses-power`: so is what the
 *   store was not told to flush.
 */
export const FAULTS = ['fails', 'answer-lost', 'hangs', 'dies-before', 'dies-after', 'loses-power'] as const
export type Fault = (typeof FAULTS)[number]

/** A tree as it stood when a generation was tried; the journal goes by its own rules. */
export type Tree = Record<string, string>

/** What one run left behind. */
export interface FaultRun {
  host: TestHost
  backend: MemoryBackend
  /** The fault was met. */
  met: boolean
  /** The process was killed by it. */
  died: boolean
  bootError: unknown
  stopError: unknown
  /** Trees by the generation that was tried with them. */
  trees: Map<number, Tree>
  /** The tree at the end of the run. */
  lastTree: Tree
  /** The highest generation whose success was reported. */
  acknowledged: number
  /** How long it took by the clock of the run. */
  elapsedMs: number
}

const DIED = new Error('the process died')

/** What an empty host gets. */
export interface Resumed {
  result: HydrateResult
  tree: Tree
  /** Keys in the plugin's database. */
  rows: string[]
  /** Event types in the journal, in order. */
  types: string[]
  lastSeq: number
}

/** A session of one committed turn, in a bucket that can be copied. */
export async function seedBucket(
  layoutName: LayoutName = 'mirror',
): Promise<{ objects: MemoryBackend['objects']; tree: Tree; generation: number }> {
  const host = await TestHost.boot({ layoutName })
  await host.turn('t1', () => work(host, 't1'))
  const tree = treeOf(host.dir)
  await host.kill()
  return { objects: host.backend.objects, tree, generation: 1 }
}

export interface Scenario {
  backend: WriteBackBackend
  policy: FailurePolicy
  absent: readonly Capability[]
  /** Call to meet a fault at, from 1; 0 for none. */
  at: number
  fault: Fault
  layoutName?: LayoutName
}

/** Resumes the session on an empty host, runs a turn, retries what failed, and stops; the fault comes where it was told to. */
export async function runScenario({
  backend,
  policy,
  absent,
  at,
  fault,
  layoutName = 'mirror',
}: Scenario): Promise<FaultRun> {
  const host = new TestHost({ backend, policy, absent, layoutName })
  const run: FaultRun = {
    host,
    backend,
    met: false,
    died: false,
    bootError: undefined,
    stopError: undefined,
    trees: new Map(),
    lastTree: {},
    acknowledged: 0,
    elapsedMs: 0,
  }
  const startedAtMs = host.clock.now()
  const death = plan(run, at, fault)
  watchSnapshots(run)
  try {
    await Promise.race([live(run), death])
  } catch (error) {
    if (error !== DIED) throw error
    run.died = true
    await letGo(host)
    if (fault === 'loses-power') backend.losePower()
  }
  run.elapsedMs = host.clock.now() - startedAtMs
  if (existsSync(host.dir)) run.lastTree = treeOf(host.dir)
  backend.faults.heal()
  return run
}

/** The store's state on a host that has never seen the session, compared with what was tried. */
export async function resumeOnEmptyHost(
  backend: MemoryBackend,
  absent: readonly Capability[],
  layoutName: LayoutName = 'mirror',
): Promise<Resumed> {
  const { store } = newStore({ of: backend, absent })
  const root = newDir('empty')
  const result = await hydrateSession({
    layout: layoutName === 'mirror' ? layoutOf(store, 's1') : versionedOf(store, 's1', root),
    sessionId: 's1',
    sessionsRoot: root,
    prepareStaging: nothing,
    onMixed: 'warn',
  })
  const dir = join(root, 's1')
  if (!existsSync(join(dir, 'journal', 'header.json'))) return { result, tree: {}, rows: [], types: [], lastSeq: 0 }
  const reader = await JournalReader.open(join(dir, 'journal'))
  const types: string[] = []
  for await (const { type } of reader) types.push(type)
  return {
    result,
    tree: treeOf(dir),
    rows: rowsOf(join(dir, 'plugins/nexus.memory/store.db')),
    types,
    lastSeq: await reader.lastSeq(),
  }
}

function rowsOf(path: string): string[] {
  if (!existsSync(path)) return []
  const db = new Database(path, { readonly: true })
  try {
    if (db.pragma('integrity_check', { simple: true }) !== 'ok') throw new Error(`${path} is damaged`)
    const rows = db.prepare('SELECT key FROM kv ORDER BY key').all() as { key: string }[]
    return rows.map(({ key }) => key)
  } finally {
    db.close()
  }
}

/** Every kind of thing a turn leaves: an appended file, a rewritten one, a new one, a blob, rows of two databases. */
export async function work(host: TestHost, turnId: string): Promise<void> {
  const conversation = join(host.dir, 'context/conversation.jsonl')
  const before = existsSync(conversation) ? readFileSync(conversation, 'utf8') : ''
  host.write('context/conversation.jsonl', `${before}{"turn":"${turnId}"}\n`)
  host.write('files/rewritten.txt', `rewritten in ${turnId}`)
  host.write(`files/${turnId}.txt`, turnId)
  host.storage.open('session', 'nexus.memory').put(turnId, 'row')
  host.storage.open('app', 'nexus.budget').put(turnId, 'row')
  const blobs = BlobStore.open(join(host.dir, 'blobs'), { ...host.durability.blobHooks, fsync: false })
  await blobs.put(Buffer.from(`blob of ${turnId}`), 'text/plain')
}

/** Without the journal, whose events go on after the snapshot, and the metadata of databases, which a copy rewrites. */
export function treeOf(dir: string): Tree {
  const tree = fingerprint(
    dir,
    (path) => path.startsWith('journal/') || path.endsWith('.db') || path === SESSION_RECORD_PATH,
  )
  for (const [path, content] of Object.entries(tree)) tree[path] = content.length > 100 ? sha256(content) : content
  return tree
}

async function live(run: FaultRun): Promise<void> {
  const { host } = run
  try {
    await host.boot()
  } catch (error) {
    run.bootError = error
    await host.durability.finish({ clean: false })
    return
  }
  await host.turn('t2', () => work(host, 't2'))
  try {
    await host.stop()
  } catch (error) {
    run.stopError = error
  }
}

/** Sets the fault up; the promise rejects when the process is to die. */
function plan(run: FaultRun, at: number, fault: Fault): Promise<never> {
  const { host, backend } = run
  const { faults } = backend
  return new Promise((_resolve, reject) => {
    const die = (): void => reject(DIED)
    switch (fault) {
      case 'fails':
        faults.failWhen(({ index }) => noted(run, index === at))
        break
      case 'answer-lost':
        faults.applyThenFail(at)
        onCall(backend, at, () => void noted(run, true))
        break
      case 'hangs':
        faults.hang(({ index }) => {
          if (!noted(run, index === at)) return false
          // A call that doesn't answer is only noticed when time passes.
          setImmediate(() => void host.clock.advance(60_000))
          return true
        })
        break
      case 'dies-before':
        faults.dieAfter(at - 1)
        onCall(backend, at, () => {
          noted(run, true)
          die()
        })
        break
      case 'dies-after':
      case 'loses-power':
        faults.dieAfter(at)
        onCall(backend, at + 1, () => {
          noted(run, true)
          die()
        })
        break
    }
  })
}

function noted(run: FaultRun, hit: boolean): boolean {
  if (hit) run.met = true
  return hit
}

/** Runs the hook when that call has been logged, before it is decided what becomes of it. */
function onCall({ faults }: MemoryBackend, at: number, hook: () => void): void {
  const { calls } = faults
  const push = calls.push.bind(calls)
  calls.push = (...logged) => {
    const length = push(...logged)
    if (logged.some(({ index }) => index === at)) hook()
    return length
  }
}

/** Remembers the tree that each snapshot was taken of: nothing writes while one runs. */
function watchSnapshots(run: FaultRun): void {
  const { host } = run
  host.bus.subscribeAll(({ type, payload }) => {
    if (type !== 'session.snapshot.result') return
    const { generation, ok } = payload as { generation: number; ok: boolean }
    run.trees.set(generation, treeOf(host.dir))
    if (ok) run.acknowledged = Math.max(run.acknowledged, generation)
  })
}

/** What a dead process leaves open in this one is closed, without a word to the store. */
async function letGo(host: TestHost): Promise<void> {
  host.isDead = true
  await host.durability.abandon()
  host.bus.close()
  await (host.journal as TestHost['journal'] | undefined)?.close()
  const storage = host.storage as TestHost['storage'] | undefined
  await storage?.closeAll()
  await storage?.dispose()
}

async function nothing(): Promise<void> {}
