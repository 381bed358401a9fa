import { afterEach, beforeEach, expect, it } from 'vitest'
import { EngineLab, history } from './engine-fixture.ts'

let lab: EngineLab

beforeEach(() => {
  lab = new EngineLab()
})

afterEach(() => lab.close())

it('finds the newest commit of a session after more turns than a listing has keys on a page', async () => {
  const first = await lab.booted('a', { config: { journal: { fsync: 'none' } } })
  for (let turn = 0; turn < 1001; turn += 1) await first.submitInput(String(turn))
  await first.abandon()
  const second = await lab.booted('b', { recallSessionId: first.sessionId })
  const lines = (await history(second)).trimEnd().split('\n')
  expect(lines).toEqual(Array.from({ length: 1001 }, (_, turn) => String(turn)))
  expect(second.status().durability?.generation).toBe(1001)
}, 180_000)
