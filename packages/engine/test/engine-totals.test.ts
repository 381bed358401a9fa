import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Engine, Plugin } from '../src/index.ts'
import { EngineLab } from './engine-fixture.ts'

let lab: EngineLab

beforeEach(() => {
  lab = new EngineLab()
})

afterEach(() => lab.close())

const USAGE = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 }

const speaker: Plugin = {
  id: 'test.speaker',
  name: 'Speaker',
  version: '1.0.0',
  init({ bus, session }) {
    bus.subscribe('io.input', async (event) => {
      const turn = { turn_id: event.payload.content, session_id: session.id }
      await event.emit('agent.turn.start', turn)
      await event.emit('llm.response', { content: 'yes', usage: USAGE, cost_usd: 0.5 })
      await event.emit('agent.turn.end', turn)
    })
  },
}

async function speaking(recallSessionId?: string): Promise<Engine> {
  return await lab.booted('a', {
    stored: false,
    plugins: [speaker],
    ...(recallSessionId === undefined ? {} : { recallSessionId }),
  })
}

function timings(engine: Engine): { turn_id: string; tokens_used?: number; cost_usd?: number }[] {
  return readFileSync(join(lab.sessionDir('a', engine.sessionId), 'metadata', 'timing.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { turn_id: string })
}

const totals = ({ session }: Engine): number[] => {
  const { turnCount, tokensUsed, promptTokensUsed, completionTokensUsed, costUsd } = session.meta()
  return [turnCount, tokensUsed, promptTokensUsed, completionTokensUsed, costUsd]
}

describe('totals', () => {
  it('are those of the journal when the process ended before it had counted, and are counted once', async () => {
    const first = await speaking()
    const dir = lab.sessionDir('a', first.sessionId)
    const files = ['session.json', 'timing.jsonl'].map((name) => join(dir, 'metadata', name))
    await first.submitInput('one')
    for (const file of files) copyFileSync(file, `${file}.kept`)
    await first.submitInput('two')
    await first.abandon()
    // As a kill leaves them: the journal has the turn, and the metadata have not.
    for (const file of files) copyFileSync(`${file}.kept`, file)
    const second = await speaking(first.sessionId)
    expect(totals(second)).toEqual([2, 20, 14, 6, 1])
    expect(timings(second).map(({ turn_id }) => turn_id)).toEqual(['one', 'two'])
    await second.abandon()
    const third = await speaking(first.sessionId)
    expect(totals(third)).toEqual([2, 20, 14, 6, 1])
    expect(timings(third)).toHaveLength(2)
  })

  it('are right where the very first event was not counted', async () => {
    const first = await speaking()
    const meta = join(lab.sessionDir('a', first.sessionId), 'metadata', 'session.json')
    copyFileSync(meta, `${meta}.kept`)
    await first.submitInput('one')
    await first.abandon()
    copyFileSync(`${meta}.kept`, meta)
    const second = await speaking(first.sessionId)
    expect(totals(second)).toEqual([1, 10, 7, 3, 0.5])
    expect(timings(second)).toHaveLength(1)
  })

  it('of a writer that said nothing of positions are taken as they are', async () => {
    const first = await speaking()
    const meta = join(lab.sessionDir('a', first.sessionId), 'metadata', 'session.json')
    await first.submitInput('one')
    await first.stop()
    const { counted_seq: _counted, ...older } = JSON.parse(readFileSync(meta, 'utf8')) as Record<string, unknown>
    writeFileSync(meta, JSON.stringify(older))
    expect(totals(await speaking(first.sessionId))).toEqual([1, 10, 7, 3, 0.5])
  })

  it('go on from a journal that lost its end', async () => {
    const first = await speaking()
    const journal = join(lab.sessionDir('a', first.sessionId), 'journal', 'events.jsonl')
    await first.submitInput('one')
    const kept = readFileSync(journal)
    await first.submitInput('two')
    await first.abandon()
    writeFileSync(journal, kept)
    const second = await speaking(first.sessionId)
    await second.submitInput('three')
    await second.abandon()
    rmSync(join(lab.sessionDir('a', first.sessionId), 'metadata', 'timing.jsonl'))
    expect(totals(await speaking(first.sessionId))).toEqual([3, 30, 21, 9, 1.5])
  })
})

describe('a line of timing', () => {
  it('tells what its turn cost, and why it failed', async () => {
    const engine = await speaking()
    await engine.submitInput('one')
    await engine.bus.emit('agent.turn.start', { turn_id: 'x', session_id: engine.sessionId })
    await engine.bus.emit('agent.turn.end', { turn_id: 'x', session_id: engine.sessionId, error: 'no luck' })
    expect(timings(engine)).toMatchObject([
      { turn_id: 'one', tokens_used: 10, cost_usd: 0.5 },
      { turn_id: 'x', error: 'no luck' },
    ])
    expect(timings(engine)[1]).not.toHaveProperty('tokens_used')
  })
})
