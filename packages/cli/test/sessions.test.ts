import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { endedSession, newMachine, nexus } from './session-fixture.ts'

describe('nexus sessions list', () => {
  it('lists what is here, what is in the bucket, and what is in both', async () => {
    const machine = newMachine()
    await endedSession(machine, 'both')
    await endedSession(machine, 'away')
    rmSync(join(machine.sessionsRoot, 'away'), { recursive: true })
    const { code, lines } = await nexus('sessions', 'list', '-c', machine.config)
    expect(code).toBe(0)
    expect(lines[0]).toMatch(/^session +here +stored +turns +last used$/)
    expect(lines[1]).toMatch(/^away +- +generation \d+ +- +-$/)
    expect(lines[2]).toMatch(/^both +ended +generation \d+ +2 +2\d{3}-.*ago|now/)
    const rows = (await nexus('--json', 'sessions', 'list', '-c', machine.config)).lines.map(
      (line) => JSON.parse(line) as object,
    )
    expect(rows).toMatchObject([
      { id: 'away', local: null, stored: { generation: expect.any(Number) as number } },
      { id: 'both', local: { lock: 'free', status: 'ended', turn_count: 2 }, stored: {} },
    ])
  })

  it('takes a root without a configuration, and says that it is empty', async () => {
    const { code, lines, notes } = await nexus('sessions', 'list', '--root', newMachine().root)
    expect([code, lines]).toEqual([0, []])
    expect(notes.join()).toContain('no sessions in')
  })
})

describe('nexus sessions show', () => {
  it('shows a session from here and from the bucket, and says which', async () => {
    const machine = newMachine()
    await endedSession(machine, 's1')
    const here = await nexus('sessions', 'show', 's1', '-c', machine.config, '--files')
    expect(here.code).toBe(0)
    expect(here.lines.join('\n')).toContain(join(machine.sessionsRoot, 's1'))
    expect(here.lines.join('\n')).toMatch(/0600 +8 +files\/report\.txt/)
    const { json } = await nexus('sessions', 'show', 's1', '-c', machine.config, '--from', 'store', '--json', '--files')
    expect(json).toMatchObject({
      id: 's1',
      source: 'store',
      where: 'sessions/s1',
      generation: expect.any(Number) as number,
      metadata: { turn_count: 2 },
      blobs: { count: 1, bytes: 6 },
      databases: ['plugins/main/store.db'],
    })
  })

  it('suggests the session that was meant', async () => {
    const machine = newMachine()
    await endedSession(machine, 'support-4711')
    const { code, notes } = await nexus('sessions', 'show', 'suport-4711', '-c', machine.config)
    expect(code).toBe(1)
    expect(notes.join('\n')).toContain('Did you mean support-4711?')
    const { json } = await nexus('sessions', 'show', 'suport-4711', '-c', machine.config, '--json')
    expect(json).toMatchObject({ error: { code: 'NOT_FOUND' } })
  })
})

describe('a session', () => {
  it('is verified, broken, exported, imported elsewhere, and deleted here and in the bucket', async () => {
    const machine = newMachine()
    await endedSession(machine, 's1')
    const on = (...args: string[]): ReturnType<typeof nexus> => nexus('sessions', ...args, '-c', machine.config)
    expect((await on('verify', 's1')).code).toBe(0)
    expect((await on('verify', 's1', '--from', 'store', '--json')).json).toMatchObject({
      ok: true,
      source: 'store',
      problems: [],
    })

    const archive = join(machine.root, 's1.tar.zst')
    expect((await on('export', 's1', archive, '--json')).json).toMatchObject({ path: archive, source: 'local' })
    const other = newMachine()
    const brought = await nexus('sessions', 'import', archive, '--as', 'copy', '-c', other.config, '--json')
    expect(brought.json).toMatchObject({ id: 'copy', exported_id: 's1', replaced: false })
    expect((await nexus('sessions', 'import', archive, '--as', 'copy', '-c', other.config)).code).toBe(1)
    expect((await nexus('sessions', 'import', archive, '--as', 'copy', '--overwrite', '-c', other.config)).code).toBe(2)
    const again = await nexus(
      'sessions',
      'import',
      archive,
      '--as',
      'copy',
      '--overwrite',
      '-y',
      '-c',
      other.config,
      '--json',
    )
    expect(again.json).toMatchObject({ replaced: true })
    // The store of this machine knows the id.
    expect((await on('import', archive)).notes.join()).toContain('another id')

    machine.objects.set('sessions/s1/files/report.txt', { bytes: Buffer.from('A REPORT'), modTime: new Date() })
    const damaged = await on('verify', 's1', '--from', 'store', '--json')
    expect([damaged.code, damaged.json]).toMatchObject([1, { ok: false, problems: [{ path: 'files/report.txt' }] }])

    const shown = await on('rm', 's1', '--remote')
    expect([shown.code, shown.lines.join()]).toEqual([3, expect.stringContaining('--yes')])
    expect(machine.objects.has('sessions/s1.manifest/manifest.json')).toBe(true)
    expect((await on('rm', 's1', '--remote', '--yes', '--json')).json).toMatchObject({ done: true, place: 'store' })
    expect([...machine.objects.keys()]).toEqual([])
    expect(readFileSync(join(machine.sessionsRoot, 's1/files/report.txt'), 'utf8')).toBe('a report')
    expect((await on('rm', 's1')).code).toBe(3)
    expect((await on('rm', 's1', '-y')).code).toBe(0)
    expect(readdirSync(machine.sessionsRoot)).toEqual(['.machine'])
    expect((await on('rm', 's1', '-y')).code).toBe(1)
  })
})
