import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type BranchOptions,
  type BranchReport,
  type ConfigInput,
  Engine,
  type Plugin,
  silentLogger,
} from '@nexus/engine'
import { describe, expect, it } from 'vitest'
import { agentLoop, conversationMemory, fileTools, noteTools, scriptedModel, tokenBudget } from '../src/index.ts'
import { Lab } from './lab.ts'

const usage = { prompt_tokens: 8, completion_tokens: 2 }

function script(greeting: string, ending: string): Record<string, unknown> {
  const answers = [
    {
      input: '/^write (\\w+)$/',
      steps: [
        { tool_calls: [{ name: 'append_file', arguments: { path: 'log', content: `{{1}}${ending}\n` } }], usage },
        { tool_calls: [{ name: 'add_note', arguments: { title: '{{1}}', text: 'x' } }, { name: 'reach_out' }], usage },
        { content: 'wrote {{1}}', usage },
      ],
    },
    {
      input: 'read',
      steps: [
        { tool_calls: [{ name: 'read_file', arguments: { path: 'log' } }], usage },
        { content: greeting, usage },
      ],
    },
    { steps: [{ content: greeting, usage }] },
  ]
  return { 'nexus.llm.scripted': { answers } }
}

/** A tool that reaches outside: no replay may call it. */
function outside(): { plugin: Plugin; calls: () => number } {
  let calls = 0
  return {
    calls: () => calls,
    plugin: {
      id: 'test.outside',
      name: 'Outside',
      version: '1',
      init: ({ bus }) =>
        void bus.subscribe('tool.invoke', async (event) => {
          const { id, name, turn_id } = event.payload
          if (name !== 'reach_out') return
          calls++
          await event.emit('tool.result', {
            id,
            name,
            output: 'reached',
            ...(turn_id === undefined ? {} : { turn_id }),
          })
        }),
    },
  }
}

const agent = (...more: Plugin[]): Plugin[] => [
  tokenBudget(),
  conversationMemory(),
  agentLoop(),
  fileTools(),
  noteTools(),
  scriptedModel(),
  ...more,
]

const coreOf = (lab: Lab): NonNullable<ConfigInput['core']> => ({
  sessions: { root: join(lab.dir, 'host', 'sessions') },
  storage: { root: join(lab.dir, 'host') },
})

async function branch(lab: Lab, { sessionId }: Engine, options: BranchOptions): Promise<BranchReport> {
  return await Engine.replay(sessionId, { core: coreOf(lab) }, { logger: silentLogger, ...options })
}

describe('a branch', () => {
  it('takes the turns before it as they were, and the others for real under another configuration', async () => {
    const lab = new Lab()
    const reach = outside()
    const engine = await lab.engine({ plugins: agent(reach.plugin), blocks: script('hello', '') })
    for (const input of ['write one', 'hi', 'write two', 'read']) await engine.submitInput(input)
    await engine.stop()
    expect(reach.calls()).toBe(2)
    const journal = join(lab.dir, 'host', 'sessions', engine.sessionId, 'journal', 'events.jsonl')
    const before = readFileSync(journal)

    const config = { core: coreOf(lab), plugins: script('goodbye', '!') }
    const keepIn = join(lab.dir, 'branch')
    const report = await branch(lab, engine, { plugins: agent(reach.plugin), fromTurn: 3, config, keepIn })
    // The tool that reaches outside was called in turn 3 of the branch, and not in turn 1, which is as it was.
    expect(reach.calls()).toBe(3)
    expect(report).toMatchObject({
      fromTurn: 3,
      turns: [
        { turn: 3, input: 'write two', same: false },
        { turn: 4, input: 'read', same: false },
      ],
      files: [{ path: 'files/log', before: { sizeBytes: 8 }, after: { sizeBytes: 9 } }],
      totals: { before: { turns: 4, tokens: 90 }, after: { turns: 4, tokens: 90 } },
      notRebuilt: ['reach_out'],
    })
    expect(report.firstDifference).toBeUndefined()
    const texts = (events: { type: string; payload: unknown }[]): unknown[] =>
      events.filter(({ type }) => type === 'io.output').map(({ payload }) => (payload as { content: string }).content)
    expect([texts(report.turns[1]?.removed ?? []), texts(report.turns[1]?.added ?? [])]).toEqual([
      ['hello'],
      ['goodbye'],
    ])
    // Equal events are in neither list.
    expect(report.turns[0]?.added.map(({ type }) => type)).not.toContain('agent.turn.start')
    expect(readFileSync(join(report.dir ?? '', 'files', 'log'), 'utf8')).toBe('one\ntwo!\n')
    expect(readFileSync(journal).equals(before)).toBe(true)
  })

  it('is the same where nothing is another, and leaves nothing behind', async () => {
    const lab = new Lab()
    const engine = await lab.engine({ plugins: agent(), blocks: script('hello', '') })
    for (const input of ['write one', 'hi']) await engine.submitInput(input)
    await engine.stop()
    const config = { core: coreOf(lab), plugins: script('hello', '') }
    for (const fromTurn of [1, 2]) {
      const report = await branch(lab, engine, { plugins: agent(), fromTurn, config })
      expect(report.turns.map(({ same }) => same)).toEqual(fromTurn === 1 ? [true, true] : [true])
      expect(report).toMatchObject({ files: [], totals: { after: report.totals.before } })
      expect(report).not.toHaveProperty('dir')
    }
  })

  it('asks the gates anew: what was refused may be let in', async () => {
    const lab = new Lab()
    const limited = (tokens: number): Record<string, unknown> => ({
      ...script('hello', ''),
      'nexus.gate.token_budget': { session_tokens: tokens },
    })
    const engine = await lab.engine({ plugins: agent(), blocks: limited(10) })
    for (const input of ['hi', 'again']) await engine.submitInput(input)
    await engine.stop()
    const config = { core: coreOf(lab), plugins: limited(100) }
    const { turns, totals } = await branch(lab, engine, { plugins: agent(), fromTurn: 2, config })
    expect(turns).toMatchObject([{ turn: 2, input: 'again', same: false, removed: [{ vetoed: true }] }])
    expect(turns[0]?.added.at(-1)).toMatchObject({ type: 'agent.turn.end' })
    expect(totals).toMatchObject({ before: { turns: 1 }, after: { turns: 2 } })
  })

  it('needs a turn that there is, and an empty directory', async () => {
    const lab = new Lab()
    const engine = await lab.engine({ plugins: agent(), blocks: script('hello', '') })
    await engine.submitInput('hi')
    await engine.stop()
    for (const fromTurn of [0, 1.5, 2]) {
      await expect(branch(lab, engine, { plugins: agent(), fromTurn })).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
      })
    }
    const full = branch(lab, engine, { plugins: agent(), fromTurn: 1, keepIn: lab.dir })
    await expect(full).rejects.toMatchObject({ code: 'PRECONDITION' })
    expect(existsSync(join(lab.dir, 'host'))).toBe(true)
  })
})
