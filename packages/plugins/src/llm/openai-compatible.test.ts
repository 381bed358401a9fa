import type { Engine } from '@nexus/engine'
import { describe, expect, it } from 'vitest'
import { collect, Lab, until } from '../../test/lab.ts'
import {
  beginStream,
  type Behaviour,
  breaking,
  chunk,
  failing,
  modelServer,
  streamed,
  usageChunk,
} from '../../test/model-server.ts'
import { agentLoop } from '../agent/loop.ts'
import { cancelControl } from '../control/cancel.ts'
import type { LlmDelta, LlmResponse } from './answer-requests.ts'
import { openAiCompatible } from './openai-compatible.ts'

const KEY = 'sk-very-secret-key'

interface Asked {
  engine: Engine
  server: Awaited<ReturnType<typeof modelServer>>
  deltas: LlmDelta[]
  responses: LlmResponse[]
  control: ReturnType<typeof cancelControl>
}

async function agentOf(behaviours: readonly Behaviour[], block: object = {}): Promise<Asked> {
  const server = await modelServer(behaviours)
  const deltas: LlmDelta[] = []
  const control = cancelControl()
  const engine = await new Lab().engine({
    plugins: [agentLoop(), control.plugin, openAiCompatible({ onDelta: (delta) => void deltas.push(delta) })],
    blocks: {
      'nexus.agent.loop': { max_iterations: 2 },
      'nexus.llm.openai_compatible': {
        base_url: server.baseUrl,
        api_key: KEY,
        model: 'm',
        timeout_ms: 10_000,
        idle_timeout_ms: 10_000,
        max_retries: 2,
        ...block,
      },
    },
  })
  return { engine, server, deltas, responses: collect<LlmResponse>(engine, 'llm.response'), control }
}

const messagesOf = (body: Record<string, unknown> = {}): object[] => body['messages'] as object[]
const textOf = (deltas: readonly LlmDelta[]): string =>
  deltas
    .slice(deltas.findLastIndex(({ restarted }) => restarted === true) + 1)
    .map(({ text }) => text)
    .join('')

describe('an answer', () => {
  it('comes in pieces, with usage and cost', async () => {
    const prices = { prompt_usd_per_million: 2, completion_usd_per_million: 10 }
    const { engine, server, deltas, responses } = await agentOf([streamed('Hel', 'lo')], {
      prices,
      parameters: { temperature: 0.5 },
      headers: { 'x-team': 'a' },
    })
    expect(await engine.submitInput('hi')).toEqual({ accepted: true })
    expect(deltas.map(({ text }) => text)).toEqual(['Hel', 'lo'])
    expect(responses).toMatchObject([
      {
        content: 'Hello',
        usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 },
        model: 'm-1',
        finish_reason: 'stop',
      },
    ])
    expect(responses[0]?.cost_usd).toBeCloseTo(0.0004)
    expect(engine.session.meta()).toMatchObject({ tokensUsed: 120 })
    expect(server.bodies[0]).toEqual({
      model: 'm',
      temperature: 0.5,
      messages: [{ role: 'user', content: 'hi' }],
      stream: true,
      stream_options: { include_usage: true },
    })
    expect(server.headers[0]).toMatchObject({ authorization: `Bearer ${KEY}`, 'x-team': 'a' })
  })

  it('has the calls of tools put together, and the conversation goes back in the form of the API', async () => {
    const call = (index: number, more: object, called: object): string =>
      chunk({ tool_calls: [{ index, ...more, function: called }] })
    const { engine, server, responses } = await agentOf([
      (response) => {
        beginStream(response)
        response.write(call(0, { id: 'c1' }, { name: 'look', arguments: '{"ci' }))
        response.write(call(1, {}, { name: 'wait', arguments: '' }))
        response.write(call(0, {}, { arguments: 'ty":"Rome"}' }))
        response.write(call(2, { id: 'c3' }, { name: 'look', arguments: '{"city":' }))
        response.end(`${chunk({}, { finish_reason: 'tool_calls' })}${usageChunk}data: [DONE]\n\n`)
      },
      streamed('done'),
    ])
    await engine.submitInput('hi')
    expect(responses[0]?.tool_calls).toEqual([
      { id: 'c1', name: 'look', arguments: { city: 'Rome' } },
      { id: 'call-turn-1-1-2', name: 'wait', arguments: {} },
      { id: 'c3', name: 'look', arguments: '{"city":' },
    ])
    expect(messagesOf(server.bodies[1]).slice(1, 3)).toMatchObject([
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'c1', type: 'function', function: { name: 'look', arguments: '{"city":"Rome"}' } },
          { id: 'call-turn-1-1-2' },
          { function: { arguments: '{"city":' } },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: expect.stringContaining('no tool "look"') as unknown },
    ])
  })

  it('may come in one piece', async () => {
    const { engine, server, responses, deltas } = await agentOf(
      [
        (response) => {
          const choice = { index: 0, message: { role: 'assistant', content: 'whole' }, finish_reason: 'stop' }
          response.writeHead(200, { 'content-type': 'application/json' })
          response.end(JSON.stringify({ id: 'x', model: 'm-1', choices: [choice] }))
        },
      ],
      { stream: false },
    )
    expect(await engine.submitInput('hi')).toEqual({ accepted: true })
    expect(responses).toMatchObject([{ content: 'whole' }])
    expect(textOf(deltas)).toBe('whole')
    expect(server.bodies[0]).not.toHaveProperty('stream')
  })

  it('is not spoiled by packets that divide a character', async () => {
    const { engine, responses } = await agentOf([
      (response) => {
        beginStream(response)
        const bytes = Buffer.from(chunk({ content: 'Zürich' }))
        const middle = bytes.indexOf(0xc3) + 1
        response.write(bytes.subarray(0, middle))
        setTimeout(() => {
          response.write(bytes.subarray(middle))
          response.end(`${chunk({}, { finish_reason: 'stop' })}data: [DONE]\n\n`)
        }, 20)
      },
    ])
    await engine.submitInput('hi')
    expect(responses).toMatchObject([{ content: 'Zürich' }])
  })
})

describe('a server that misbehaves', () => {
  it.each<[string, Behaviour[]]>([
    ['answers 500', [failing(500, 'oops')]],
    ['answers 503 and then that there are too many requests', [failing(503, 'busy'), failing(429, 'slow down')]],
    ['drops the connection', [(response) => void response.destroy()]],
    ['breaks its answer off', [breaking((response) => void response.destroy())]],
    ['ends its answer too early', [breaking((response) => void response.end())]],
    [
      'says in the middle of its answer that it failed',
      [breaking((response) => void response.end('data: {"error":{"message":"overloaded"}}\n\n'))],
    ],
    ['sends what is no JSON', [breaking((response) => void response.end('data: {"choices": [\n\n'))]],
    [
      'sends a page of HTML',
      [(response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<html></html>')],
    ],
  ])('is asked again when it %s', async (_, behaviours) => {
    const { engine, server, deltas, responses } = await agentOf([...behaviours, streamed('fine')])
    expect(await engine.submitInput('hi')).toEqual({ accepted: true })
    expect(server.bodies).toHaveLength(behaviours.length + 1)
    expect(responses).toMatchObject([{ content: 'fine' }])
    expect(textOf(deltas)).toBe('fine')
  })

  it('is asked again when its answer pauses for too long', async () => {
    const { engine, responses } = await agentOf([breaking(() => undefined), streamed('fine')], { idle_timeout_ms: 100 })
    expect(await engine.submitInput('hi')).toEqual({ accepted: true })
    expect(responses).toMatchObject([{ content: 'fine' }])
  })

  it.each<[string, Behaviour, string, number]>([
    ['never answers', () => undefined, 'UNAVAILABLE', 2],
    ['always breaks off', breaking((response) => void response.destroy()), 'UNAVAILABLE', 2],
    ['always has too many requests', failing(429, 'slow down'), 'THROTTLED', 2],
    ['knows no such model', failing(404, 'no such model'), 'INVALID_ARGUMENT', 1],
    ['refuses the key and repeats it', failing(401, `bad key ${KEY}`), 'PERMISSION', 1],
  ])('that %s fails the turn with a code', async (_, behaviour, code, requests) => {
    const { engine, server } = await agentOf([behaviour], { timeout_ms: 150, max_retries: 1 })
    const outcome = await engine.submitInput('hi')
    expect(outcome).toMatchObject({ failed: 1, error: { code } })
    expect(server.bodies).toHaveLength(requests)
    expect(JSON.stringify([outcome.turnError, String(outcome.error)])).not.toContain(KEY)
  })

  it('says when it wants to be asked again, and is not asked before', async () => {
    const asked: number[] = []
    const note =
      (then: Behaviour): Behaviour =>
      (response, request) => {
        asked.push(performance.now())
        return then(response, request)
      }
    const limited = note(failing(429, 'slow down', { 'retry-after-ms': '', 'retry-after': '1' }))
    const { engine, responses } = await agentOf([limited, note(streamed('fine'))])
    expect(await engine.submitInput('hi')).toEqual({ accepted: true })
    expect(responses).toMatchObject([{ content: 'fine' }])
    // Load can only make it later.
    expect((asked[1] ?? 0) - (asked[0] ?? 0)).toBeGreaterThanOrEqual(950)
  })

  it.each<[string, Behaviour, string]>([
    [
      'never says that it is done',
      (response) => {
        beginStream(response)
        response.end(`${chunk({ content: 'all' })}${chunk({}, { finish_reason: 'stop' })}`)
      },
      'all',
    ],
    [
      'says nothing of usage, and puts comments and empty lines between',
      (response) => {
        beginStream(response)
        response.end(
          `: ping\n\n\n${chunk({ content: 'all' })}: pong\r\n\r\n${chunk({}, { finish_reason: 'stop' })}data: [DONE]\n\n`,
        )
      },
      'all',
    ],
    [
      'gives two choices',
      (response) => {
        beginStream(response)
        const second = { choices: [{ index: 1, delta: { content: 'other' }, finish_reason: 'stop' }] }
        response.write(`${chunk({ content: 'a' })}data: ${JSON.stringify(second)}\n\n`)
        response.end(`${chunk({ content: 'll' })}${chunk({}, { finish_reason: 'stop' })}data: [DONE]\n\n`)
      },
      'all',
    ],
    [
      'gives two choices in one chunk',
      (response) => {
        beginStream(response)
        const both = [1, 0].map((index) => ({ index, delta: { content: `${index}` }, finish_reason: 'stop' }))
        response.end(`data: ${JSON.stringify({ choices: both })}\n\ndata: [DONE]\n\n`)
      },
      '0',
    ],
    [
      'writes a line of a megabyte in many packets',
      (response) => {
        beginStream(response)
        const line = `${chunk({ content: 'x'.repeat(2 ** 20) })}${chunk({}, { finish_reason: 'stop' })}data: [DONE]\n\n`
        for (let at = 0; at < line.length; at += 50_000) response.write(line.slice(at, at + 50_000))
        response.end()
      },
      'x'.repeat(2 ** 20),
    ],
    [
      'calls its stream text/plain',
      (response) => {
        response.writeHead(200, { 'content-type': 'text/plain' })
        response.end(`${chunk({ content: 'all' })}${chunk({}, { finish_reason: 'stop' })}data: [DONE]\n\n`)
      },
      'all',
    ],
  ])('is understood when it %s', async (_, behaviour, content) => {
    const { engine, server, responses } = await agentOf([behaviour])
    expect(await engine.submitInput('hi')).toEqual({ accepted: true })
    expect(responses).toMatchObject([{ content }])
    expect(server.bodies).toHaveLength(1)
    expect(engine.session.meta().tokensUsed).toBe(0)
  })

  it('is left when its answer never ends', async () => {
    let written = 0
    let closed = false
    const { engine } = await agentOf([
      async (response) => {
        response.once('close', () => (closed = true))
        beginStream(response)
        const line = chunk({ content: 'x'.repeat(2 ** 18) })
        // Eight times what an answer may have.
        while (!response.destroyed && written < 64 * 2 ** 20) {
          written += 2 ** 18
          if (!response.write(line)) await new Promise(setImmediate)
        }
      },
    ])
    expect(await engine.submitInput('hi')).toMatchObject({ failed: 1, error: { code: 'UNSUPPORTED' } })
    await until(() => closed)
    expect(written).toBeLessThan(32 * 2 ** 20)
  })

  it('is left when the turn is cancelled', async () => {
    let closed = false
    const { engine, deltas, control } = await agentOf([
      (response) => {
        response.once('close', () => (closed = true))
        void breaking(() => undefined)(response, undefined as never)
      },
    ])
    const turn = engine.submitInput('hi')
    await until(() => deltas.length > 0)
    await control.cancel('enough')
    expect(await turn).toEqual({ accepted: true, turnError: 'turn turn-1 was cancelled: enough' })
    await until(() => closed)
  })
})

it.each([[{}], [{ model: '' }], [{ model: 'm', base_url: 'ftp://x' }], [{ model: 'm', max_retries: -1 }]])(
  'refuses the block %j',
  async (block) => {
    const engine = new Lab().engine({ plugins: [openAiCompatible()], blocks: { 'nexus.llm.openai_compatible': block } })
    await expect(engine).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  },
)
