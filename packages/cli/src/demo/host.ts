import { join } from 'node:path'
import process from 'node:process'
import { Engine, silentLogger } from '@nexus/engine'
import { JournalReader } from '@nexus/engine/journal'
import { loadModule } from '../load-module.ts'
import { takeFingerprint } from './fingerprint.ts'
import { FULL_TEXT_QUERY, NO_MANIFEST, type HostOrder, type HostReport, type ResumeEvidence } from './host-order.ts'
import { createLibrarian, LIBRARIAN_ID, questionOf } from './librarian.ts'

function report(message: HostReport): void {
  process.send?.(message)
}

function configOf(order: HostOrder): Record<string, unknown> {
  return {
    core: {
      sessions: { root: join(order.dataRoot, 'sessions'), retention: '0', restart: 'discard' },
      storage: { root: order.dataRoot },
      object_store: {
        backend: order.backend.name,
        bucket: order.backend.bucket,
        layout: order.backend.layout,
        on_mixed: 'warn',
      },
    },
    journal: { rotate_size_mb: order.rotateSizeMb },
    plugins: { active: [LIBRARIAN_ID] },
  }
}

function killSwitch(order: HostOrder): (name: string) => void {
  let visits = 0
  return (name) => {
    if (name !== order.killAt?.failpoint) return
    visits += 1
    if (visits >= order.killAt.visit) process.kill(process.pid, 'SIGKILL')
  }
}

async function openHost(order: HostOrder): Promise<{ engine: Engine; mixed: string[] }> {
  await loadModule(order.backend.module)
  const engine = await Engine.fromConfig(configOf(order), {
    plugins: [createLibrarian(order.seed)],
    logger: silentLogger,
    recallSessionId: order.sessionId,
    failpoint: killSwitch(order),
  })
  const mixed: string[] = []
  engine.bus.subscribe('session.hydrate.mixed', ({ payload }) => {
    mixed.push(...(payload.generation === 0 ? [NO_MANIFEST] : payload.paths))
  })
  const startedMs = performance.now()
  await engine.boot()
  report({ kind: 'booted', bootMs: performance.now() - startedMs })
  return { engine, mixed }
}

/** Reports the state at each boundary before it is committed and again when it is: a kill may fall between the two. */
function reportBoundaries(engine: Engine): void {
  let turn = 0
  engine.bus.subscribe('agent.turn.end', async (event) => {
    turn = Number(event.payload.turn_id.slice('turn-'.length))
    report({ kind: 'proposed', turn, fingerprint: await takeFingerprint(engine) })
  })
  engine.bus.subscribe('session.snapshot.result', ({ payload }) => {
    if (!payload.ok || payload.trigger !== 'turn') return
    const { duration_ms: durationMs, bytes_uploaded: bytesUploaded, objects_uploaded: objectsUploaded } = payload
    report({ kind: 'committed', turn, durationMs, bytesUploaded, objectsUploaded })
  })
}

async function work(order: HostOrder): Promise<void> {
  const { engine } = await openHost(order)
  reportBoundaries(engine)
  const { turns: done } = await takeFingerprint(engine)
  for (let turn = done + 1; turn <= order.turns; turn += 1) await engine.submitInput(questionOf(turn))
  if (!order.hangInLastTurn) {
    await engine.stop()
    report({ kind: 'done' })
    return
  }
  engine.bus.subscribe('tool.result', async () => {
    await engine.session.writeFile('files/unfinished.md', 'Written after the last boundary.\n')
    report({ kind: 'mid-turn', turn: order.turns + 1, unfinished: ['files/unfinished.md'] })
    await new Promise(() => {
      setInterval(() => undefined, 60_000)
    })
  })
  await engine.submitInput(questionOf(order.turns + 1))
}

async function countJournal(dir: string): Promise<{ events: number; damage: number }> {
  const reader = await JournalReader.open(dir)
  let events = 0
  for await (const _ of reader) events += 1
  return { events, damage: reader.damage.length }
}

async function resume(order: HostOrder): Promise<void> {
  const { engine, mixed } = await openHost(order)
  const fingerprint = await takeFingerprint(engine)
  const { db } = engine.storage.open('session', LIBRARIAN_ID)
  const answer = db.prepare<[string], string>('SELECT title FROM passages WHERE passages MATCH ? ORDER BY rank').pluck()
  const integrity = db.pragma('integrity_check', { simple: true }) as string
  const journal = await countJournal(join(engine.session.dir, 'journal'))
  const found = answer.get(FULL_TEXT_QUERY) ?? ''
  await engine.submitInput(questionOf(fingerprint.turns + 1))
  const evidence: ResumeEvidence = {
    integrity,
    answer: found,
    journalEvents: journal.events,
    journalDamage: journal.damage,
    firstTurnMs: performance.now(),
  }
  report({ kind: 'resumed', turns: fingerprint.turns, fingerprint, evidence, mixed })
  await engine.stop()
  report({ kind: 'done' })
}

const order = JSON.parse(process.argv[2] ?? '{}') as HostOrder
try {
  await (order.role === 'work' ? work(order) : resume(order))
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exitCode = 1
}
process.disconnect?.()
