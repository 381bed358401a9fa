import { expect, it } from 'vitest'
import { call } from '../../test/call.ts'
import { Lab } from '../../test/lab.ts'
import { noteTools } from './notes.ts'

it('keeps notes over runs, finds them by their words, and takes any query as words', async () => {
  const lab = new Lab()
  const first = await lab.engine({ plugins: [noteTools()] })
  expect(await call(first, 'add_note', { title: 'Disks', text: 'fsync orders the writes' })).toEqual({
    output: { id: 1 },
  })
  await call(first, 'add_note', { title: 'Milk', text: 'buy "two" AND one' })
  await first.stop()
  const engine = await lab.engine({ plugins: [noteTools()], recallSessionId: first.sessionId })
  expect(await call(engine, 'search_notes', { query: 'writes fsync' })).toEqual({
    output: [{ id: 1, title: 'Disks', excerpt: 'fsync orders the writes' }],
  })
  for (const query of ['"two" AND', 'NEAR(', 'title:x OR *', '"']) {
    expect(await call(engine, 'search_notes', { query })).toMatchObject({ output: expect.any(Array) as unknown })
  }
  expect(await call(engine, 'search_notes', { query: 'AND' })).toMatchObject({ output: [{ id: 2 }] })
  expect(await call(engine, 'read_note', { id: 2 })).toMatchObject({
    output: { title: 'Milk', text: 'buy "two" AND one' },
  })
  expect(await call(engine, 'delete_note', { id: 2 })).toEqual({ output: 'removed' })
  expect(await call(engine, 'read_note', { id: 2 })).toEqual({ error: 'there is no note 2' })
})
