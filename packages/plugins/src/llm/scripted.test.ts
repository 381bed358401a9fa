import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { collect, Lab } from '../../test/lab.ts'
import { agentLoop } from '../agent/loop.ts'
import type { LlmDelta } from './answer-requests.ts'
import { scriptedModel } from './scripted.ts'
import { scriptedAnswer } from './script.ts'

describe('a script', () => {
  const user = (content: string): object => ({ role: 'user', content })
  const ask = (messages: object[]): object => ({ role: 'main', model: 'm', messages, turn_id: 'turn-3' })
  const script = [
    {
      input: '/^write (\\w+)$/',
      steps: [
        { content: '', tool_calls: [{ name: 'write_file', arguments: { path: '{{1}}', text: ['{{input}}'] } }] },
        { content: 'wrote {{1}}' },
      ],
    },
    { input: 'hi', steps: [{ content: 'hello', usage: { prompt_tokens: 2, completion_tokens: 1 }, cost_usd: 0.5 }] },
  ]

  it('answers by what the user said last and how far the turn is', () => {
    const first = scriptedAnswer(
      script,
      ask([user('hi'), { role: 'assistant', content: 'hello' }, user('write me')]) as never,
    )
    expect(first).toMatchObject({
      finish_reason: 'tool_calls',
      tool_calls: [{ id: 'call-turn-3-1-1', name: 'write_file', arguments: { path: 'me', text: ['write me'] } }],
    })
    const call = { role: 'assistant', content: '', tool_calls: first.tool_calls }
    const second = scriptedAnswer(
      script,
      ask([user('write me'), call, { role: 'tool', content: 'ok', tool_call_id: 'x' }]) as never,
    )
    expect(second).toMatchObject({
      content: 'wrote me',
      finish_reason: 'stop',
      usage: { prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 },
    })
  })

  it('gives usage and cost as they stand in it', () => {
    expect(scriptedAnswer(script, ask([user('hi')]) as never)).toMatchObject({
      usage: { prompt_tokens: 2, completion_tokens: 1, total_tokens: 3 },
      cost_usd: 0.5,
    })
  })

  it.each([
    ['an input that no entry fits', [user('ho')], 'no entry for the input "ho"'],
    ['a step that it has not', [user('hi'), { role: 'assistant', content: '' }], 'no step 2'],
  ])('names %s', (_, messages, message) => {
    expect(() => scriptedAnswer(script, ask(messages) as never)).toThrow(message)
  })
})

it('is read from a file, and its text comes in pieces', async () => {
  const lab = new Lab()
  const file = join(lab.dir, 'script.yaml')
  writeFileSync(file, '- steps:\n    - content: one two  three\n')
  const deltas: LlmDelta[] = []
  const model = scriptedModel({ onDelta: (delta) => void deltas.push(delta) })
  const engine = await lab.engine({ plugins: [agentLoop(), model], blocks: { 'nexus.llm.scripted': { file } } })
  const outputs = collect(engine, 'io.output')
  await engine.submitInput('go')
  expect(outputs).toMatchObject([{ content: 'one two  three' }])
  expect(deltas.map(({ text }) => text).join('|')).toBe('one |two  |three')
  expect(deltas[0]).toMatchObject({ role: 'main', turnId: 'turn-1' })
})

it('answers the roles that it is configured for alone', async () => {
  const blocks = { 'nexus.llm.scripted': { answers: [{ steps: [{ content: 'x' }] }], roles: ['judge'] } }
  const engine = await new Lab().engine({ plugins: [scriptedModel()], blocks })
  const responses = collect(engine, 'llm.response')
  for (const role of ['main', 'judge']) {
    await engine.bus.emit('llm.request', { role, model: '', messages: [{ role: 'user', content: 'x' }] })
  }
  expect(responses).toHaveLength(1)
})

it.each([[{}], [{ answers: [], file: 'x' }], [{ answers: [{ steps: [] }] }]])('refuses the block %j', async (block) => {
  const engine = new Lab().engine({ plugins: [scriptedModel()], blocks: { 'nexus.llm.scripted': block } })
  await expect(engine).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
})
