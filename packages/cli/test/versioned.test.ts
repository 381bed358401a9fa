import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { openSession } from '@nexus/engine'
import { silentLogger } from '@nexus/host'
import { describe, expect, it } from 'vitest'
import { endedSession, type Machine, newMachine, nexus } from './session-fixture.ts'

/** A versioned session of two turns that has ended, here and in the bucket. Generation 1 is its claim. */
async function versionedSession({ root, bucket }: Machine, id: string): Promise<void> {
  const store = { backend: 'memory-test', bucket, layout: 'versioned' } as const
  const session = await openSession({ id, root, store, logger: silentLogger })
  for (const turn of ['t1', 't2']) {
    await session.workspace.writeFile('files/report.txt', `of ${turn}`)
    await session.workspace.writeFile(`files/${turn}`, turn)
    await session.commit()
  }
  await session.close()
}

describe('a versioned session', () => {
  it('has a history, whose generations are restored, compared and forked', async () => {
    const machine = newMachine()
    await versionedSession(machine, 'v1')
    // Nothing of it is needed here.
    rmSync(join(machine.sessionsRoot, 'v1'), { recursive: true })
    const on = (...args: string[]): ReturnType<typeof nexus> => nexus('sessions', ...args, '-c', machine.config)
    const { code, lines } = await on('history', 'v1')
    expect(code).toBe(0)
    expect(lines[0]).toMatch(/^gen +committed +kind +files +size +turn$/)
    expect(lines.at(-1)).toMatch(/^1 +2\d{3}-\d\d-\d\d \d\d:\d\d:\d\dZ (?:now|\d+ \w+ ago) +claim /)
    const rows = (await on('history', 'v1', '--json')).lines.map((line) => JSON.parse(line) as { generation: number })
    expect(rows.map(({ generation }) => generation)).toEqual(rows.map((_, at) => rows.length - at))
    expect(rows.at(-1)).toMatchObject({ kind: 'claim', files: expect.any(Number) as number, unstored: [] })
    expect((await on('history', 'v1', '--limit', '1', '--json')).lines).toHaveLength(1)

    const to = join(machine.root, 'old')
    expect((await on('restore', 'v1', to, '--generation', '2', '--json')).json).toMatchObject({
      generation: 2,
      lost: [],
    })
    expect(readFileSync(join(to, 'files/report.txt'), 'utf8')).toBe('of t1')
    expect((await on('restore', 'v1', to)).code).toBe(1)
    expect((await on('restore', 'v1', join(machine.root, 'x'), '--generation', '99')).notes.join()).toContain(
      'newest is',
    )

    const differ = await on('diff', 'v1@2', 'v1@3', '--json')
    expect([differ.code, differ.json]).toMatchObject([
      1,
      {
        before: { id: 'v1', generation: 2 },
        added: ['files/t2'],
        removed: [],
        changed: ['files/report.txt', 'journal/events.jsonl'],
      },
    ])
    expect((await on('diff', 'v1@2', 'v1@3')).lines).toEqual([
      '~ files/report.txt',
      '~ journal/events.jsonl',
      '+ files/t2',
      'v1@2 to v1@3: 1 added, 0 removed, 2 changed',
    ])
    expect((await on('diff', 'v1@3', 'v1@3')).code).toBe(0)
    expect((await on('diff', 'v1@zero')).code).toBe(2)

    const forked = await on('fork', 'v1', '--as', 'f1', '--generation', '2', '--json')
    expect(forked.json).toMatchObject({ id: 'f1', generation: 1, forked_from: { id: 'v1', generation: 2 } })
    expect((await on('fork', 'v1', '--as', 'f1')).code).toBe(1)
    const between = (await on('diff', 'v1@2', 'f1', '--json')).json as { changed: string[] }
    expect(between.changed).toEqual(['journal/header.json', 'metadata/session.json'])
  })

  it('is purged and removed only with --yes, and not while its owner looks live', async () => {
    const machine = newMachine()
    await versionedSession(machine, 'v1')
    const on = (...args: string[]): ReturnType<typeof nexus> => nexus('sessions', ...args, '-c', machine.config)
    const objects = [...machine.objects.keys()].toSorted()
    const shown = await on('purge', 'v1', '--history', '--json')
    expect([shown.code, shown.json]).toMatchObject([3, { id: 'v1', done: false }])
    expect([...machine.objects.keys()].toSorted()).toEqual(objects)
    expect((await on('purge', 'v1')).code).toBe(2)

    const store = { backend: 'memory-test', bucket: machine.bucket, layout: 'versioned' } as const
    const running = await openSession({ id: 'v1', root: machine.root, store, logger: silentLogger })
    for (const args of [
      ['purge', 'v1', '--history', '--yes'],
      ['rm', 'v1', '--remote', '--yes'],
    ]) {
      expect((await on(...args)).code).toBe(3)
    }
    await running.close()

    // The run was one of this very process, and its newest commit is young: it still looks open.
    expect((await on('purge', 'v1', '--history', '--yes')).code).toBe(3)
    expect((await on('purge', 'v1', '--history', '--yes', '--force', '--json')).json).toMatchObject({ done: true })
    expect((await on('history', 'v1', '--json')).lines).toHaveLength(1)
    expect((await on('rm', 'v1', '--remote')).code).toBe(3)
    expect((await on('rm', 'v1', '--remote', '--yes', '--force', '--json')).json).toMatchObject({
      place: 'store',
      done: true,
    })
    expect(existsSync(join(machine.sessionsRoot, 'v1/files/report.txt'))).toBe(true)
    expect((await on('history', 'v1')).notes.join()).toContain('was removed at')
    expect((await on('rm', 'v1', '--remote', '--yes')).notes.join()).toContain('was removed at')

    const gc = (...args: string[]): ReturnType<typeof nexus> =>
      nexus('store', 'gc', '--forget-removed', '--older-than', '0d', ...args, '-c', machine.config, '--json')
    expect([(await gc()).code, (await gc()).json]).toMatchObject([3, { versioned: [{ id: 'v1', forgotten: true }] }])
    expect((await gc('--yes')).json).toMatchObject({ done: true })
    expect([...machine.objects.keys()].filter((key) => key.startsWith('sessions/v1.v'))).toEqual([])
  })

  it('is what these commands are for: of a mirror session they say so, and a name is suggested', async () => {
    const machine = newMachine()
    await endedSession(machine, 's1')
    await versionedSession(machine, 'support-4711')
    const on = (...args: string[]): ReturnType<typeof nexus> => nexus('sessions', ...args, '-c', machine.config)
    for (const args of [
      ['history', 's1'],
      ['restore', 's1', join(machine.root, 'x')],
      ['fork', 's1', '--as', 'y'],
      ['diff', 's1@1'],
      ['purge', 's1', '--history', '--yes'],
    ]) {
      const refused = await on(...args)
      expect([refused.code, refused.notes.join()]).toEqual([1, expect.stringContaining('mirror layout')])
    }
    expect((await on('history', 'suport-4711')).notes.join()).toContain('Did you mean support-4711?')
  })

  it('comes of a mirror session, and becomes one again, by store migrate', async () => {
    const machine = newMachine()
    await endedSession(machine, 's1')
    const migrate = (...args: string[]): ReturnType<typeof nexus> =>
      nexus('store', 'migrate', 's1', ...args, '-c', machine.config, '--json')
    expect((await migrate('--to', 'sideways')).code).toBe(2)
    const shown = await migrate('--to', 'versioned')
    expect([shown.code, shown.json]).toMatchObject([3, { from: 'mirror', to: 'versioned', done: false }])
    expect((await migrate('--to', 'versioned', '--yes')).json).toMatchObject({ done: true })
    const history = await nexus('sessions', 'history', 's1', '-c', machine.config, '--json')
    expect(history.lines).toHaveLength(1)
    const mirror = { backend: 'memory-test', bucket: machine.bucket, layout: 'mirror' } as const
    const open = openSession({ id: 's1', root: newMachine().root, store: mirror, logger: silentLogger })
    await expect(open).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    const auto = { ...mirror, layout: 'auto' } as const
    const moved = await openSession({ id: 's1', root: newMachine().root, store: auto, logger: silentLogger })
    expect(Buffer.from(await moved.workspace.readFile('files/report.txt')).toString()).toBe('a report')
    await moved.close()
    expect((await migrate('--to', 'mirror', '--yes', '--force')).json).toMatchObject({ done: true })
    const back = await openSession({ id: 's1', root: newMachine().root, store: mirror, logger: silentLogger })
    expect(Buffer.from(await back.workspace.readFile('files/report.txt')).toString()).toBe('a report')
    await back.close()
    expect((await nexus('sessions', 'rm', 's1', '--remote', '-y', '-c', machine.config)).code).toBe(0)
    const left = [...machine.objects].filter(([key]) => key.startsWith('sessions/s1'))
    expect(left.filter(([key]) => !/^sessions.s1.v.(?:commits.|hint$)/.test(key))).toEqual([])
    expect((await nexus('sessions', 'history', 's1', '-c', machine.config)).notes.join()).toContain('was removed')
  }, 20_000)

  it('is claimed by gc --claim, which takes young packs that nothing names', async () => {
    const machine = newMachine()
    await versionedSession(machine, 'v1')
    const key = 'sessions/v1.v/packs/00000000000000000002-0123456789abcdef-0'
    machine.objects.set(key, { bytes: Buffer.from('left over'), modTime: new Date() })
    const gc = (...args: string[]): ReturnType<typeof nexus> =>
      nexus('store', 'gc', ...args, '-c', machine.config, '--json')
    expect((await gc()).json).toMatchObject({ versioned: [] })
    expect((await gc('--claim')).json).toMatchObject({ versioned: [{ kept: expect.stringContaining('looks open') }] })
    expect((await gc('--claim', '--force')).json).toMatchObject({ done: false, versioned: [{ id: 'v1', packs: 1 }] })
    expect((await gc('--claim', '--force', '--yes')).json).toMatchObject({ done: true })
    expect(machine.objects.has(key)).toBe(false)
    const { lines } = await nexus('sessions', 'history', 'v1', '--limit', '1', '-c', machine.config, '--json')
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ kind: 'claim' })
  })
})
