import { createHash, randomBytes, randomInt } from 'node:crypto'
import process from 'node:process'
import { setTimeout } from 'node:timers/promises'
import { isNexusError, openSession, silentLogger, type Session } from '@nexus/engine'
import '@nexus/objectstore-fs'
import '@nexus/objectstore-s3'
import { type FaultKind, registerFaulty } from '../soak/faulty-backend.ts'
import { CONVERSATION, DATABASE, fileOf, type FightMessage, type FightOrder } from './fight-protocol.ts'

// One of several processes that all want the same session: opens it, does turns until it has lost it, and opens it again.

const MOST_BYTES = 200_000
const order = JSON.parse(process.argv[2] as string) as FightOrder
const { fighter, life, sessionId, dataRoot, store, lostAnswers } = order

/** Resolves when the parent has it, so that a kill right after it loses nothing that was said. */
async function say(message: FightMessage): Promise<void> {
  await new Promise<void>((resolve) => {
    process.send?.(message, undefined, undefined, () => resolve())
  })
}

function take(): FaultKind | undefined {
  return Math.random() < lostAnswers ? 'lose-answer' : undefined
}

const backend = registerFaulty(store.backend, () => ({ take }))
let turns = 0

async function takeTurn(session: Session): Promise<void> {
  const turn = `${fighter}.${life}.${++turns}`
  const content = randomBytes(randomInt(1, MOST_BYTES))
  await session.workspace.appendFile(CONVERSATION, `${JSON.stringify({ role: 'user', content: turn })}\n`)
  await session.workspace.writeFile(fileOf(fighter), content)
  const { db } = session.storage(DATABASE)
  db.exec('CREATE TABLE IF NOT EXISTS turns (turn TEXT PRIMARY KEY)')
  db.prepare('INSERT INTO turns VALUES (?)').run(turn)
  const { generation } = (await session.commit()).committed
  const sha256 = createHash('sha256').update(content).digest('hex')
  await say({ kind: 'acknowledged', turn, fighter, generation, sha256 })
}

/** Fights until the session is lost to another. */
async function fight(): Promise<void> {
  const session = await openSession({
    id: sessionId,
    root: dataRoot,
    store: { ...store, backend, layout: 'versioned', ownership: 'claim' },
    logger: silentLogger,
  })
  await say({ kind: 'booted' })
  try {
    while (session.status().phase === 'running') {
      await takeTurn(session)
      await setTimeout(randomInt(50))
    }
  } finally {
    await session.abandon()
  }
}

for (;;) {
  try {
    await fight()
  } catch (error) {
    const code = isNexusError(error) ? error.code : 'none'
    if (code === 'FENCED') await say({ kind: 'lost' })
    else await say({ kind: 'failed', code, error: String((error as Error).stack) })
  }
  await setTimeout(randomInt(20, 400))
}
