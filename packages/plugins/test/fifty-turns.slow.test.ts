import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { Engine, type Plugin, type ReplayReport, silentLogger } from '@nexus/engine'
import { expect, it, onTestFinished } from 'vitest'
import { agent, type Conversation, hold, SESSION_ID } from './fifty-turns.ts'

/** How often a conversation is killed. */
const KILLS = Number(process.env['NEXUS_CONVERSATION_KILLS'] ?? 3)
const TURNS = Number(process.env['NEXUS_CONVERSATION_TURNS'] ?? (KILLS > 3 ? 50 : 8))
/** About how many points a turn has. */
const POINTS_PER_TURN = 180
/** In which layouts of the store. */
const LAYOUTS = (process.env['NEXUS_CONVERSATION_LAYOUTS'] ?? 'mirror,versioned').split(',')
const SEED = Number(process.env['NEXUS_CONVERSATION_SEED'] ?? 1)

function newDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'nexus-fifty-'))
  mkdirSync(join(dir, 'bucket'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** Numbers in [0, 1), the same for a seed. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return state / 2 ** 31
  }
}

async function heldInProcess(conversation: Conversation): Promise<NodeJS.Signals | null> {
  const child = join(import.meta.dirname, 'fifty-turns.child.ts')
  const running = spawn(process.execPath, [...process.execArgv, child, JSON.stringify(conversation)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  running.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  return await new Promise((resolve, reject) => {
    running.once('close', (code, signal) => {
      if (code === 0 || signal === 'SIGKILL') resolve(signal)
      else reject(new Error(`the process ended with ${code ?? signal}: ${stderr}`))
    })
  })
}

async function replayed(dir: string): Promise<ReplayReport> {
  const core = { sessions: { root: join(dir, 'sessions') }, storage: { root: dir } }
  return await Engine.replay(SESSION_ID, { core }, { plugins: agent(), logger: silentLogger })
}

/** Everything that the conversation left, whatever the kills. */
async function left(dir: string): Promise<object> {
  const found: Record<string, unknown> = {}
  // Under its id, a plugin of our own sees the database of another.
  const reader = (id: string, scope: 'session' | 'app', query: string): Plugin => ({
    id,
    name: id,
    version: '1',
    init: (context) => void (found[id] = context.storage(scope).db.prepare(query).all()),
  })
  const engine = await Engine.fromConfig(
    { core: { sessions: { root: join(dir, 'sessions'), retention: 0 }, storage: { root: dir } } },
    {
      plugins: [
        reader('nexus.tool.sqlite', 'session', 'SELECT title, text FROM notes ORDER BY rowid'),
        reader('nexus.gate.token_budget', 'app', 'SELECT * FROM usage'),
      ],
      recallSessionId: SESSION_ID,
      useConfigSnapshot: false,
      logger: silentLogger,
    },
  )
  await engine.boot()
  const { session } = engine
  const { turnCount, tokensUsed, promptTokensUsed, completionTokensUsed, costUsd } = session.meta()
  for (const entry of readdirSync(session.filesDir, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile()) found[path.slice(session.dir.length)] = readFileSync(path, 'utf8')
  }
  found['totals'] = { turnCount, tokensUsed, promptTokensUsed, completionTokensUsed, costUsd }
  found['conversation'] = (await session.readFile('context/conversation.jsonl')).toString()
  found['timings'] = readFileSync(join(session.metadataDir, 'timing.jsonl'), 'utf8').match(/"turn_id":"[^"]*"/g)
  await engine.stop()
  return found
}

it.each(LAYOUTS)(
  `a conversation that is killed ${KILLS} times in layout %s ends as one that never was (seed ${SEED})`,
  async (layout) => {
    const reference = newDir()
    await hold({ dir: reference, layout, turns: TURNS })
    const killed = newDir()
    const random = seeded(SEED)
    let kills = 0
    while (kills < KILLS) {
      const killAt = 8 + Math.floor(random() * ((TURNS * POINTS_PER_TURN * 2) / KILLS))
      const signal = await heldInProcess({ dir: killed, layout, turns: TURNS, killAt })
      if (signal === null) break
      kills++
    }
    expect(kills).toBeGreaterThan(KILLS / 4)
    await heldInProcess({ dir: killed, layout, turns: TURNS })
    // Before anything boots there again: the journal as the conversation left it.
    const replays = await Promise.all([replayed(killed), replayed(reference)])
    expect(await left(killed)).toEqual(await left(reference))
    const same = { turns: TURNS, events: expect.any(Number) as unknown }
    expect(replays).toEqual([same, same])
    expect(replays[1]?.events).toBeGreaterThan(TURNS * 20)
  },
  // The whole of it, fifty turns and twenty kills, is for a machine that does nothing else; a loaded one takes its time.
  KILLS > 3 ? 1_800_000 : 300_000,
)
