import { expect, it } from 'vitest'
import { Lab, until } from '../../test/lab.ts'
import { agentLoop } from '../agent/loop.ts'
import { TurnSignals } from '../turn/turn-signals.ts'
import { cancelControl } from './cancel.ts'

/** A model that never answers. */
function hangingModel(): { plugin: Parameters<Lab['engine']>[0]['plugins'][number]; asked: () => boolean } {
  let asked = false
  return {
    asked: () => asked,
    plugin: {
      id: 'test.hanging',
      name: 'Hanging',
      version: '1',
      init({ bus }) {
        const signals = new TurnSignals(bus)
        bus.subscribe('llm.request', async ({ payload }) => {
          asked = true
          const signal = signals.of(payload['turn_id'])
          await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
        })
      },
    },
  }
}

it('cancels the turn under way and tells which', async () => {
  const control = cancelControl()
  const model = hangingModel()
  const engine = await new Lab().engine({ plugins: [agentLoop(), control.plugin, model.plugin] })
  expect(await control.cancel()).toEqual([])
  const turn = engine.submitInput('go')
  await until(model.asked)
  expect(await control.cancel('no longer needed')).toEqual(['turn-1'])
  expect(await turn).toEqual({ accepted: true, turnError: 'turn turn-1 was cancelled: no longer needed' })
  expect(await control.cancel()).toEqual([])
})

it('cancels a turn that takes too long', async () => {
  const blocks = { 'nexus.control.cancel': { turn_timeout_ms: 20 } }
  const plugins = [agentLoop(), cancelControl().plugin, hangingModel().plugin]
  const engine = await new Lab().engine({ plugins, blocks })
  expect(await engine.submitInput('go')).toMatchObject({
    turnError: expect.stringContaining('longer than 20 ms') as unknown,
  })
})
