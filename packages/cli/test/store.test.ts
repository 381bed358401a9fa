import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openSession } from '@nexus/engine'
import { silentLogger } from '@nexus/host'
import { expect, it } from 'vitest'
import { endedSession, newMachine, nexus } from './session-fixture.ts'

it('looks at a store, finds what is missing and what belongs to nothing, and removes only that', async () => {
  const machine = newMachine()
  await endedSession(machine, 's1')
  const on = (...args: string[]): ReturnType<typeof nexus> => nexus('store', ...args, '-c', machine.config)
  expect((await on('check', '--json')).json).toMatchObject({ ok: true, sessions: [{ id: 's1', problems: [] }] })
  expect((await on('ls', 'sessions/s1/files', '--json')).lines.map((line) => JSON.parse(line) as object)).toMatchObject(
    [
      { key: 'sessions/s1/files/report.txt', size: 8 },
      { key: 'sessions/s1/files/t1', size: 2 },
      { key: 'sessions/s1/files/t2' },
    ],
  )
  const { json } = await on('du', '--json')
  expect(json).toMatchObject({
    parts: expect.arrayContaining([expect.objectContaining({ name: 'sessions/s1' })]) as unknown,
  })

  const put = (path: string, modTime: Date): unknown =>
    machine.objects.set(path, { bytes: Buffer.from('left over'), modTime })
  const old = new Date('2001-09-09')
  const digest = 'ab'.repeat(32)
  for (const path of ['sessions/s1/files/deleted', `sessions/s1/blobs/ab/${digest}.bin`, 'sessions/never/files/x'])
    put(path, old)
  put('sessions/s1/files/young', new Date())
  const found = (await on('orphans', '--json')).json as { orphans: { key: string; may_mend: boolean }[] }
  expect(found.orphans.map(({ key, may_mend: mayMend }) => [key, mayMend])).toEqual([
    ['sessions/never/files/x', false],
    [`sessions/s1/blobs/ab/${digest}.bin`, true],
    ['sessions/s1/files/deleted', false],
    ['sessions/s1/files/young', false],
  ])
  const due = ['sessions/never/files/x', 'sessions/s1/files/deleted']
  const shown = await on('gc', '--json')
  expect([shown.code, shown.json]).toMatchObject([3, { done: false, keys: due }])
  expect((await on('orphans', '--json')).json).toEqual(found)

  const running = await openSession({
    id: 's1',
    root: machine.root,
    store: { backend: 'memory-test', bucket: machine.bucket },
    logger: silentLogger,
  })
  expect((await on('gc', '--json')).json).toMatchObject({ keys: due.slice(0, 1), kept: [{ id: 's1' }] })
  await running.close()
  expect((await on('gc', '--yes', '--json')).json).toMatchObject({ done: true, keys: due })
  expect((await on('gc', '--json')).json).toMatchObject({ objects: 0 })
  expect((await on('check')).code).toBe(0)

  machine.objects.delete('sessions/s1/files/report.txt')
  const damaged = await on('check', '--json')
  expect([damaged.code, damaged.json]).toMatchObject([1, { sessions: [{ problems: ['files/report.txt is missing'] }] }])
})

it('tells of a versioned session, and says what it neither checked nor read', async () => {
  const machine = newMachine()
  const versioned = { backend: 'memory-test', bucket: machine.bucket, layout: 'versioned' } as const
  const session = await openSession({ id: 'v1', root: machine.root, store: versioned, logger: silentLogger })
  await session.workspace.writeFile('files/a', 'committed')
  await session.close()
  await endedSession(machine, 's1')
  const on = (...args: string[]): ReturnType<typeof nexus> => nexus(...args, '-c', machine.config)
  const checked = await on('store', 'check', '--json')
  expect([checked.code, checked.json]).toMatchObject([
    0,
    {
      sessions: [
        { id: 's1', layout: 'mirror', checked: true },
        { id: 'v1', layout: 'versioned', checked: false, problems: [] },
      ],
    },
  ])
  const { lines } = await on('store', 'check')
  expect(lines.join('\n')).toMatch(/1 session checked[^]*1 versioned session not checked/)
  expect((await on('store', 'orphans', '--json')).json).toMatchObject({ orphans: [] })
  const listed = (await on('sessions', 'list', '--json')).lines.map((line) => JSON.parse(line) as object)
  expect(listed).toMatchObject([
    { id: 's1', stored: { layout: 'mirror' } },
    { id: 'v1', stored: { layout: 'versioned' } },
  ])

  const archive = join(machine.root, 'archive')
  expect((await on('sessions', 'export', 'v1', archive)).code).toBe(0)
  // Another machine on the same bucket.
  const root = newMachine().root
  const there = join(root, 'there.yaml')
  const store = { backend: 'memory-test', bucket: machine.bucket }
  writeFileSync(there, JSON.stringify({ core: { sessions: { root: join(root, 'sessions') }, object_store: store } }))
  for (const args of [
    ['show', 'v1'],
    ['import', archive],
  ]) {
    const refused = await nexus('sessions', ...args, '-c', there)
    expect(refused.code).not.toBe(0)
    expect(refused.notes.join('\n')).toContain('versioned layout')
  }
})

it('needs a store, and says where one comes from', async () => {
  const { code, notes } = await nexus('store', 'du', '--root', newMachine().root)
  expect([code, notes.join()]).toEqual([2, expect.stringContaining('--config')])
})
