import { join } from 'node:path'
import { randomBytes } from 'node:crypto'
import type { Checkpoint } from '@langchain/langgraph-checkpoint'
import { SqliteSaver } from '@langchain/langgraph-checkpoint-sqlite'
import type { Engine } from '@nexus/engine'
import type { Bench } from '../bench.ts'
import { bootEngine } from '../local-engine.ts'
import { alternate, compare, ratePerSecond } from '../measure.ts'
import { against, ratioAtLeast } from '../row.ts'

const STATE_BYTES = 100 * 1024
const PLUGIN = 'bench.agent'

/** A turn that leaves 100 KiB of state in the local database, its events in the journal and a line in a file. */
export const localTurnBench: Bench = {
  id: 'P13',
  title: '100 KiB of state per turn, locally',
  async run({ scratch, quick }) {
    const turns = quick ? 20 : 60
    const state = { messages: Array.from({ length: 100 }, () => randomBytes(STATE_BYTES / 200).toString('hex')) }
    const engine = await bootEngine({ root: scratch.dir('p13') })
    const relaxed = await bootEngine({ root: scratch.dir('p13-none'), journal: { fsync: 'none' } })
    const saver = SqliteSaver.fromConnString(join(scratch.dir('p13-peer'), 'checkpoints.db'))
    const samples = await alternate(
      {
        synced: () => ratePerSecond(turns, () => runTurns(engine, state, turns)),
        unsynced: () => ratePerSecond(turns, () => runTurns(relaxed, state, turns)),
        langgraph: () => ratePerSecond(turns, () => saveCheckpoints(saver, state, turns)),
      },
      { rounds: quick ? 3 : 9 },
    )
    await engine.stop()
    await relaxed.stop()
    saver.db.close()
    return [
      {
        id: 'P13',
        what: '100 KiB a turn, journal and files included, no fsync',
        unit: '/s',
        ...against('LangGraph sqlite saver', compare(samples.unsynced, samples.langgraph)),
        goals: [ratioAtLeast(1)],
      },
      {
        id: 'P13',
        what: '100 KiB a turn, the same synced at the end of a turn (default)',
        unit: '/s',
        ...against('LangGraph sqlite saver, unsynced', compare(samples.synced, samples.langgraph)),
        goals: [],
      },
    ]
  },
}

async function runTurns({ bus, session, sessionId, storage }: Engine, state: unknown, turns: number): Promise<void> {
  const store = storage.open('session', PLUGIN)
  for (let n = 0; n < turns; n++) {
    const turn = { turn_id: `turn-${n}`, session_id: sessionId }
    await bus.emit('agent.turn.start', turn)
    await session.appendFile('context/conversation.jsonl', `{"role":"user","content":"turn ${n}"}\n`)
    store.put('state', JSON.stringify(state))
    await bus.emit('agent.turn.end', turn)
  }
}

async function saveCheckpoints(saver: SqliteSaver, state: unknown, turns: number): Promise<void> {
  const config = { configurable: { thread_id: 'bench', checkpoint_ns: '' } }
  for (let n = 0; n < turns; n++) {
    const checkpoint: Checkpoint = {
      v: 4,
      id: `${Date.now().toString(16).padStart(16, '0')}-${String(n).padStart(8, '0')}`,
      ts: new Date().toISOString(),
      channel_values: { state },
      channel_versions: { state: n + 1 },
      versions_seen: {},
    }
    await saver.put(config, checkpoint, { source: 'loop', step: n, parents: {} })
  }
}
