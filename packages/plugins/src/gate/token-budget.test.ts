import type { Engine, Plugin } from '@nexus/engine'
import { createMemoryBackend } from '@nexus/objectstore-memory-test'
import { describe, expect, it } from 'vitest'
import { collect, Lab } from '../../test/lab.ts'
import { agentLoop } from '../agent/loop.ts'
import { scriptedModel } from '../llm/scripted.ts'
import { tokenBudget } from './token-budget.ts'

const usage = { prompt_tokens: 60, completion_tokens: 40 }
const scripted = {
  'nexus.llm.scripted': {
    answers: [
      {
        input: 'twice',
        steps: [
          { tool_calls: [{ name: 'none' }], usage },
          { content: 'done', usage },
        ],
      },
      { steps: [{ content: 'yes', usage }] },
    ],
  },
}
const plugins = (): Plugin[] => [tokenBudget(), agentLoop(), scriptedModel()]
const budget = (block: object): Record<string, unknown> => ({ ...scripted, 'nexus.gate.token_budget': block })

async function refusal(engine: Engine): Promise<string | undefined> {
  const outcome = await engine.submitInput('go')
  return outcome.accepted ? undefined : outcome.reason
}

describe('a session', () => {
  it('takes no input once its tokens are used, also in a later run', async () => {
    const lab = new Lab()
    const blocks = budget({ session_tokens: 200 })
    const first = await lab.engine({ plugins: plugins(), blocks })
    expect([await refusal(first), await refusal(first), await refusal(first)]).toEqual([
      undefined,
      undefined,
      'the session has used 200 of its 200 tokens',
    ])
    await first.stop()
    const second = await lab.engine({ plugins: plugins(), blocks, recallSessionId: first.sessionId })
    expect(await refusal(second)).toMatch(/200 of its 200/)
  })

  it('is stopped within a turn, too, which then ends as failed', async () => {
    const engine = await new Lab().engine({ plugins: plugins(), blocks: budget({ session_tokens: 100 }) })
    const requests = collect(engine, 'llm.request')
    expect(await engine.submitInput('twice')).toMatchObject({
      failed: 1,
      turnError: 'the session has used 100 of its 100 tokens',
    })
    expect(requests).toHaveLength(1)
  })
})

describe('a tenant', () => {
  it('shares its tokens between sessions that run at once, and with no other tenant', async () => {
    const lab = new Lab()
    const blocks = (id: string): Record<string, unknown> => budget({ tenant: { id, tokens: 300 } })
    const one = await lab.engine({ plugins: plugins(), blocks: blocks('acme') })
    const two = await lab.engine({ plugins: plugins(), blocks: blocks('acme') })
    const other = await lab.engine({ plugins: plugins(), blocks: blocks('other') })
    expect([await refusal(one), await refusal(two), await refusal(one)]).toEqual([undefined, undefined, undefined])
    expect(await refusal(two)).toBe('tenant acme has used 300 of its 300 tokens')
    expect(await refusal(other)).toBeUndefined()
  })

  it('loses nothing between hosts that take turns, each with a disk of its own', async () => {
    const lab = new Lab()
    const backend = createMemoryBackend()
    const blocks = budget({ tenant: { id: 'acme', tokens: 600 } })
    for (const host of ['a', 'b', 'a', 'c', 'b', 'a']) {
      const engine = await lab.engine({ plugins: plugins(), blocks, backend }, host)
      expect(await refusal(engine)).toBeUndefined()
      await engine.stop()
    }
    const last = await lab.engine({ plugins: plugins(), blocks, backend }, 'b')
    expect(await refusal(last)).toBe('tenant acme has used 600 of its 600 tokens')
  })

  it('is charged once for a session that is resumed', async () => {
    const lab = new Lab()
    const blocks = budget({ tenant: { id: 'acme', tokens: 200 } })
    const first = await lab.engine({ plugins: plugins(), blocks })
    expect(await refusal(first)).toBeUndefined()
    await first.abandon()
    const second = await lab.engine({ plugins: plugins(), blocks, recallSessionId: first.sessionId })
    expect(await refusal(second)).toBeUndefined()
    expect(await refusal(second)).toMatch(/200 of its 200/)
  })
})
