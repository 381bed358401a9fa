import { join } from 'node:path'
import process from 'node:process'
import { Engine, type NexusEvent, type Plugin, silentLogger } from '@nexus/engine'
import '@nexus/objectstore-fs'
import { agentLoop, conversationMemory, fileTools, noteTools, scriptedModel, tokenBudget } from '../src/index.ts'

/** Where a conversation is held, and how it ends. */
export interface Conversation {
  dir: string
  layout: string
  turns: number
  /** The process kills itself at this point, counted from its first one: events, and the failpoints of the engine and its store. */
  killAt?: number | undefined
}

export const SESSION_ID = 'fifty'

/** No tool of it can be called twice without a trace: what is appended, added or counted twice shows. */
const answers = [
  {
    input: '/^turn (\\d+)$/',
    steps: [
      {
        tool_calls: [
          { name: 'append_file', arguments: { path: 'log.txt', content: 'turn {{1}}\n' } },
          { name: 'write_file', arguments: { path: 'turns/{{1}}.md', content: '# {{input}}\n' } },
        ],
        usage: { prompt_tokens: 90, completion_tokens: 10 },
        cost_usd: 0.25,
      },
      {
        tool_calls: [{ name: 'add_note', arguments: { title: 'Turn {{1}}', text: 'number {{1}}' } }],
        usage: { prompt_tokens: 40, completion_tokens: 10 },
      },
      { content: 'Turn {{1}} is done.', usage: { prompt_tokens: 45, completion_tokens: 5 }, cost_usd: 0.5 },
    ],
  },
]

export const agent = (): Plugin[] => [
  tokenBudget(),
  conversationMemory(),
  agentLoop(),
  fileTools(),
  noteTools(),
  scriptedModel(),
]

/** Boots the session, takes the turns that it hasn't taken yet, and stops. Resolves when the session is complete. */
export async function hold({ dir, layout, turns, killAt }: Conversation): Promise<void> {
  let points = 0
  const point = (): void => {
    if (++points === killAt) process.kill(process.pid, 'SIGKILL')
  }
  const engine = await Engine.fromConfig(
    {
      core: {
        sessions: { root: join(dir, 'sessions'), retention: 0, restart: 'last_commit' },
        storage: { root: dir },
        object_store: { backend: 'fs', bucket: join(dir, 'bucket'), layout: layout as 'mirror' },
      },
      journal: { fsync: 'none' },
      plugins: {
        'nexus.llm.scripted': { answers },
        'nexus.gate.token_budget': { tenant: { id: 'acme', tokens: 1_000_000 } },
        'nexus.memory.conversation': { max_messages: 120, keep_messages: 60 },
      },
    },
    { plugins: agent(), logger: silentLogger, failpoint: point, recallSessionId: SESSION_ID },
  )
  engine.bus.subscribeAll(({ type }: NexusEvent) => type !== 'core.tick' && point())
  await engine.boot()
  // An input that the engine gives again comes first.
  await engine.bus.drain({ timeoutMs: 60_000 })
  // A turn that was complete when its commit was killed is stored before the next one begins: what `last_commit` returns to.
  if (engine.status().resumed === true) await engine.commit('what the last run left')
  for (let turn = engine.session.meta().turnCount + 1; turn <= turns; turn++) {
    const outcome = await engine.submitInput(`turn ${turn}`)
    if (!outcome.accepted || outcome.turnError !== undefined) throw new Error(JSON.stringify(outcome))
  }
  await engine.stop()
}
