import { appendFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { openSession } from '@nexus/engine'
import { silentLogger } from '@nexus/host'
import { expect, it } from 'vitest'
import { endedSession, newMachine, nexus } from './session-fixture.ts'

interface Line {
  seq: number
  type: string
}

it('reads the journal of a session here and in the bucket, narrows it down, counts it, and goes back in it', async () => {
  const machine = newMachine()
  await endedSession(machine, 's1')
  const on = (command: string, ...args: string[]): ReturnType<typeof nexus> =>
    nexus('journal', command, 's1', ...args, '-c', machine.config)
  const events = async (...args: string[]): Promise<Line[]> =>
    (await on('cat', '--json', ...args)).lines.map((line) => JSON.parse(line) as Line)
  const all = await events()
  expect(all.map(({ seq }) => seq)).toEqual(all.map((_, at) => at + 1))
  const [stored] = [await events('--from', 'store')]
  expect(stored).toEqual(all.slice(0, stored.length))
  expect((await events('--type', 'tool.*', '--type', 'agent.turn.end')).map(({ type }) => type)).toEqual(
    ['t1', 't2'].flatMap(() => ['tool.invoke', 'tool.result', 'agent.turn.end']),
  )
  expect((await events('--since', '3', '--until', '5')).map(({ seq }) => seq)).toEqual([3, 4, 5])
  expect((await on('cat', '--until', '1')).lines[0]).toMatch(/^ +1 {2}\d{4}-.*core\.boot/)
  expect((await on('tail', '-n', '2', '--json')).lines.map((line) => (JSON.parse(line) as Line).seq)).toEqual([
    all.length - 1,
    all.length,
  ])
  expect((await on('tail', '--follow', '--from', 'store')).code).toBe(2)
  expect((await on('stats', '--json')).json).toMatchObject({ events: all.length, types: { 'tool.invoke': 2 } })
  expect((await on('project', 'tool.invoke')).lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    { id: 'c-t1', arguments: { path: 'files/t1' } },
    { id: 'c-t2' },
  ])
  expect((await on('verify')).code).toBe(0)
  const turns = await nexus('timeline', 's1', '-c', machine.config, '--json')
  expect(turns.lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    { turn_id: 't1', duration_ms: expect.any(Number) as number, calls: [{ name: 'write_file' }], files: ['files/t1'] },
    { turn_id: 't2', files: ['files/t2'] },
  ])

  const calls = 'SELECT turn_id, name FROM calls JOIN turns ON turn_seq = first_seq'
  expect((await on('sql', calls, '--json', '--from', 'store')).lines.map((line) => JSON.parse(line) as object)).toEqual(
    ['t1', 't2'].map((turn) => ({ turn_id: turn, name: 'write_file' })),
  )
  expect((await on('sql', calls)).lines).toEqual(['turn_id  name', 't1       write_file', 't2       write_file'])
  expect((await on('sql', 'DROP TABLE turns')).code).toBe(2)
  expect((await on('sql')).lines[0]).toContain('CREATE TABLE turns')

  expect((await on('rewind', '4', '--json')).json).toMatchObject({ done: false, events_dropped: all.length - 4 })
  expect((await events()).length).toBe(all.length)
  expect((await on('rewind', '4', '--yes')).code).toBe(0)
  expect((await events()).length).toBe(4)
  expect(readdirSync(join(machine.sessionsRoot, 's1/journal/archive'))).toHaveLength(1)

  const [archive] = readdirSync(join(machine.sessionsRoot, 's1/journal/archive'))
  expect((await on('restore', '--json')).json).toMatchObject({ archives: [{ archive, last_seq: all.length }] })
  expect((await on('restore', 'none')).notes.join()).toContain(archive)
  expect((await on('restore', archive ?? '', '--json')).json).toMatchObject({ done: false, to_seq: all.length })
  expect((await events()).length).toBe(4)
  expect((await on('restore', archive ?? '', '--yes')).code).toBe(0)
  expect(await events()).toEqual(all)

  appendFileSync(join(machine.sessionsRoot, 's1/journal/events.jsonl'), '{"torn')
  const torn = await on('verify', '--json')
  expect([torn.code, torn.json]).toMatchObject([1, { ok: false, faults: [{ kind: 'torn' }] }])
})

it('shows what a running session does, and refuses to go back in it', async () => {
  const { root, sessionsRoot } = newMachine()
  const running = await openSession({ id: 's1', root, logger: silentLogger })
  const { code, notes } = await nexus('journal', 'rewind', 's1', '1', '--yes', '--root', root)
  expect([code, notes.join()]).toEqual([3, expect.stringContaining('is held by')])
  expect((await nexus('journal', 'stats', 's1', '--root', root, '--json')).json).toMatchObject({
    where: join(sessionsRoot, 's1'),
  })
  await running.close()
})
