import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { EngineLab, history } from './engine-fixture.ts'

let lab: EngineLab

beforeEach(() => {
  lab = new EngineLab()
})

afterEach(() => lab.close())

it.each([
  ['empty', ''],
  ['nothing but blank lines', '\n\n  \n'],
])('restores a committed conversation when the local one is %s, and keeps what was there', async (_what, content) => {
  const first = await lab.booted('a')
  await first.submitInput('one')
  await first.stop()
  const conversation = join(lab.sessionDir('a', first.sessionId), 'context/conversation.jsonl')
  writeFileSync(conversation, content)
  const stale: string[] = []
  const second = await lab.engine('a', { recallSessionId: first.sessionId })
  second.bus.subscribe('session.local.stale', ({ payload }) => void stale.push(payload.kept_at))
  await second.boot()
  expect(await history(second)).toBe('one\n')
  expect(stale).toHaveLength(1)
  expect(readFileSync(join(stale[0] as string, 'context/conversation.jsonl'), 'utf8')).toBe(content)
  await second.submitInput('two')
  const third = await lab.booted('b', { recallSessionId: first.sessionId })
  expect(await history(third)).toBe('one\ntwo\n')
})

it.each<[string, (dir: string) => void]>([
  [
    'nothing',
    (dir) => {
      rmSync(dir, { recursive: true })
      mkdirSync(dir)
    },
  ],
  ['no journal', (dir) => rmSync(join(dir, 'journal'), { recursive: true })],
  ['an empty journal', (dir) => writeFileSync(join(dir, 'journal/events.jsonl'), '')],
  ['no events', (dir) => rmSync(join(dir, 'journal/events.jsonl'))],
  ['no conversation', (dir) => rmSync(join(dir, 'context'), { recursive: true })],
  ['no database', (dir) => rmSync(join(dir, 'plugins'), { recursive: true })],
  ['a damaged header', (dir) => writeFileSync(join(dir, 'journal/header.json'), '{')],
])('restores the committed session when the local tree holds %s any more', async (_what, damage) => {
  const first = await lab.booted('a')
  await first.submitInput('one')
  await first.stop()
  damage(lab.sessionDir('a', first.sessionId))
  const second = await lab.booted('a', { recallSessionId: first.sessionId })
  expect(await history(second)).toBe('one\n')
  expect(readdirSync(lab.sessionsRoot('a')).filter((name) => name.startsWith('.stale-'))).toHaveLength(1)
  await second.submitInput('two')
  await second.stop()
  const third = await lab.booted('b', { recallSessionId: first.sessionId })
  expect(await history(third)).toBe('one\ntwo\n')
})

it('takes a conversation that was emptied to 0 bytes for lost, and one that begins anew for whole', async () => {
  const first = await lab.booted('a')
  await first.submitInput('one')
  await first.session.writeFile('context/conversation.jsonl', '')
  await first.stop()
  const second = await lab.booted('a', { recallSessionId: first.sessionId })
  expect(await history(second)).toBe('one\n')
  await second.session.writeFile('context/conversation.jsonl', '{}\n')
  await second.stop()
  const third = await lab.booted('a', { recallSessionId: first.sessionId })
  expect(await history(third)).toBe('{}\n')
})

it('stores nothing over a committed conversation when the store could not be asked at boot', async () => {
  const first = await lab.booted('a')
  await first.submitInput('one')
  await first.stop()
  writeFileSync(join(lab.sessionDir('a', first.sessionId), 'context/conversation.jsonl'), '')
  lab.backend.faults.failWhen(() => true)
  const second = await lab.booted('a', { recallSessionId: first.sessionId })
  lab.backend.faults.heal()
  await expect(second.commit()).rejects.toMatchObject({ code: 'PRECONDITION' })
  await second.stop()
  const third = await lab.booted('b', { recallSessionId: first.sessionId })
  expect(await history(third)).toBe('one\n')
})

it.each(['journal', 'journal/events.jsonl', 'journal/header.json'])(
  'does not commit a session whose %s was removed while it ran',
  async (path) => {
    const first = await lab.booted('a')
    await first.submitInput('one')
    rmSync(join(lab.sessionDir('a', first.sessionId), path), { recursive: true })
    await expect(first.commit()).rejects.toMatchObject({ name: 'NexusError' })
    await first.stop()
    const second = await lab.booted('a', { recallSessionId: first.sessionId })
    expect(await history(second)).toBe('one\n')
    const third = await lab.booted('b', { recallSessionId: first.sessionId })
    expect(await history(third)).toBe('one\n')
  },
)

it('goes on naming the committed database when its file was deleted under the handle, and says so', async () => {
  const first = await lab.booted('a')
  await first.submitInput('one')
  const { path } = first.storage.open('session', 'test.scribe')
  rmSync(path)
  const { unstored, manifest } = await first.commit()
  expect(unstored).toEqual(['plugins/test.scribe/store.db'])
  expect(manifest.objects).toContain('plugins/test.scribe/store.db')
  await first.abandon()
  const second = await lab.booted('b', { recallSessionId: first.sessionId })
  expect(second.storage.open('session', 'test.scribe').db.prepare('SELECT text FROM lines').pluck().all()).toEqual([
    'one',
  ])
})
