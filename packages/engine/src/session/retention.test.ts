import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { compress } from 'zstd-napi'
import { tempDir } from '@nexus/host/testing'
import { acquireSessionLock, silentLogger, systemClock, systemProcesses } from '@nexus/host'
import { createSessionTree } from './create-tree.ts'
import { sweepJournals, sweepSessions, type SweepSessionsOptions } from './retention.ts'

const DAY_MS = 24 * 60 * 60 * 1000

interface Sessions {
  root: string
  options: SweepSessionsOptions
  logged: { level: string; message: string; fields: Record<string, unknown> }[]
  /** Makes a session that was last used so many days and an hour ago. */
  add: (id: string, idleDays: number) => Promise<string>
}

function sessions(options: Partial<SweepSessionsOptions> = {}): Sessions {
  const root = tempDir()
  const logged: Sessions['logged'] = []
  const log =
    (level: string) =>
    (fields: Record<string, unknown>, message: string): void =>
      void logged.push({ level, message, fields })
  return {
    root,
    logged,
    options: {
      root,
      retentionMs: 30 * DAY_MS,
      explicit: true,
      currentId: 'current',
      isCommitted: () => true,
      lastSnapshotFailed: () => false,
      clock: systemClock,
      logger: { ...silentLogger, info: log('info'), warn: log('warn'), error: log('error') },
      ...options,
    },
    add: async (id, idleDays) => {
      const dir = await createSessionTree(root, id, { fsync: false })
      writeFileSync(join(dir, 'journal/header.json'), '{}')
      writeFileSync(join(dir, 'journal/events.jsonl'), '{}\n')
      const used = new Date(Date.now() - idleDays * DAY_MS - 3_600_000)
      const files = ['metadata/session.json', 'journal/header.json', 'journal/events.jsonl', '']
      for (const path of files) utimesSync(join(dir, path), used, used)
      return dir
    },
  }
}

describe('sweepSessions', () => {
  it('removes what was not used for longer than the retention, and logs each by name', async () => {
    const { root, options, logged, add } = sessions()
    await add('old', 31)
    await add('older', 400)
    await add('young', 29)
    expect(await sweepSessions(options)).toEqual(['old', 'older'])
    expect(readdirSync(root)).toEqual(['young'])
    expect(logged).toMatchObject([
      { level: 'info', fields: { session_id: 'old', idle_days: 31 }, message: expect.stringContaining('removed') },
      { level: 'info', fields: { session_id: 'older', idle_days: 400 } },
    ])
  })

  it.each([
    ['metadata/session.json'],
    ['metadata/timing.jsonl'],
    ['journal/events.jsonl'],
    ['context/conversation.jsonl'],
  ])('counts a session as used when %s changed', async (path) => {
    const { root, options, add } = sessions()
    const dir = await add('old', 400)
    writeFileSync(join(dir, path), 'now')
    expect(await sweepSessions(options)).toEqual([])
    expect(readdirSync(root)).toEqual(['old'])
  })

  it('leaves a directory alone that has nothing of a session', async () => {
    const { root, options } = sessions()
    const past = new Date(Date.now() - 40 * DAY_MS)
    mkdirSync(join(root, 'Documents'))
    writeFileSync(join(root, 'Documents/thesis.tex'), 'years of work')
    for (const path of ['Documents/thesis.tex', 'Documents']) utimesSync(join(root, path), past, past)
    expect(await sweepSessions(options)).toEqual([])
    expect(readdirSync(root)).toEqual(['Documents'])
  })

  it('keeps everything for ever with a retention of 0, and before there is anything', async () => {
    const { root, options, add } = sessions({ retentionMs: 0 })
    await add('old', 4000)
    expect(await sweepSessions(options)).toEqual([])
    expect(readdirSync(root)).toEqual(['old'])
    expect(await sweepSessions({ ...options, retentionMs: 1, root: join(root, 'nowhere') })).toEqual([])
  })

  describe('with a retention that nobody set', () => {
    it('removes only what a store holds as well', async () => {
      const { root, options, add } = sessions({
        explicit: false,
        isCommitted: async (id) => id === 'stored',
      })
      await add('stored', 31)
      await add('only-here', 31)
      expect(await sweepSessions(options)).toEqual(['stored'])
      expect(readdirSync(root)).toEqual(['only-here'])
    })

    it('removes nothing when the store can not be asked', async () => {
      const { root, options, add } = sessions({
        explicit: false,
        isCommitted: () => Promise.reject(new Error('outage')),
      })
      await add('old', 31)
      expect(await sweepSessions(options)).toEqual([])
      expect(readdirSync(root)).toEqual(['old'])
    })

    it('does not ask the store about sessions that are not due', async () => {
      const asked: string[] = []
      const { options, add } = sessions({ explicit: false, isCommitted: (id) => asked.push(id) > 0 })
      await add('old', 31)
      await add('young', 1)
      await sweepSessions(options)
      expect(asked).toEqual(['old'])
    })
  })

  it('never touches the session being opened, one whose last snapshot failed, or a locked one', async () => {
    const { root, options, add } = sessions({
      lastSnapshotFailed: (id) => {
        if (id === 'unknown') throw new Error('no record')
        return id === 'failed'
      },
    })
    for (const id of ['current', 'failed', 'unknown']) await add(id, 400)
    const lock = await acquireSessionLock(await add('locked', 400), { transport: 'test' })
    expect(await sweepSessions(options)).toEqual([])
    expect(readdirSync(root)).toEqual(['current', 'failed', 'locked', 'unknown'])
    lock.release()
  })

  it('removes one whose process is gone, without the warning of a take-over', async () => {
    const { options, logged, add } = sessions()
    const dir = await add('killed', 400)
    const { pid, bootId, pidNamespace } = systemProcesses.self()
    const dead = { pid, pid_start: 1, boot_id: bootId, pid_namespace: pidNamespace, started_at: '', transport: 'x' }
    writeFileSync(join(dir, 'session.lock'), JSON.stringify(dead))
    expect(await sweepSessions(options)).toEqual(['killed'])
    expect(logged.map(({ level }) => level)).toEqual(['info'])
  })

  it('never touches what was set aside, staging, links, files, and names that are no sessions', async () => {
    const { root, options, add } = sessions()
    const outside = tempDir()
    const past = new Date(Date.now() - 400 * DAY_MS)
    renameSync(await add('a', 400), join(root, '.stale-a-20260101T000000Z'))
    renameSync(await add('b', 400), join(root, '.hydrating-b-0123456789abcdef'))
    renameSync(await add('c', 400), join(root, 'not a session'))
    writeFileSync(join(outside, 'x'), 'x')
    utimesSync(outside, past, past)
    symlinkSync(outside, join(root, 'link'))
    writeFileSync(join(root, 'file'), 'x')
    utimesSync(join(root, 'file'), past, past)
    const before = readdirSync(root)
    expect(await sweepSessions(options)).toEqual([])
    expect(readdirSync(root)).toEqual(before)
    expect(readdirSync(outside)).toEqual(['x'])
  })

  it('does not follow links out of a session that it removes', async () => {
    const { root, options, add } = sessions()
    const outside = tempDir()
    writeFileSync(join(outside, 'x'), 'x')
    symlinkSync(outside, join(await add('old', 31), 'files/out'))
    expect(await sweepSessions(options)).toEqual(['old'])
    expect(readdirSync(root)).toEqual([])
    expect(readdirSync(outside)).toEqual(['x'])
  })

  it('removes a session with directories that do not let their owner write', async () => {
    const { root, options, add } = sessions()
    const dir = await add('old', 31)
    mkdirSync(join(dir, 'files/closed'))
    writeFileSync(join(dir, 'files/closed/a'), 'x')
    chmodSync(join(dir, 'files/closed'), 0o500)
    expect(await sweepSessions(options)).toEqual(['old'])
    expect(readdirSync(root)).toEqual([])
  })

  it('finishes what an earlier sweep began', async () => {
    const { root, options, add } = sessions()
    renameSync(await add('half', 1), join(root, '.removing-half-0123456789abcdef'))
    expect(await sweepSessions(options)).toEqual([])
    expect(readdirSync(root)).toEqual([])
  })

  it('leaves a session that was opened and closed again between the look and the lock', async () => {
    const { root, options, add } = sessions({
      lastSnapshotFailed: (id) => {
        writeFileSync(join(root, id, 'metadata/session.json'), 'used')
        return false
      },
    })
    await add('old', 31)
    expect(await sweepSessions(options)).toEqual([])
    expect(readdirSync(root)).toEqual(['old'])
    expect(existsSync(join(root, 'old/session.lock'))).toBe(false)
  })

  it('logs and keeps what it can not remove, and goes on', async () => {
    const { root, options, logged, add } = sessions({
      isCommitted: (id) => {
        // Gone before it could be locked: somebody else removed it.
        if (id === 'vanishing') rmSync(join(root, id), { recursive: true })
        return true
      },
      explicit: false,
    })
    await add('b-old', 31)
    mkdirSync(join(await add('a-stuck', 31), 'session.lock'))
    await add('vanishing', 31)
    expect(await sweepSessions(options)).toEqual(['b-old'])
    expect(logged).toMatchObject([
      { level: 'warn', fields: { session_id: 'a-stuck' } },
      { level: 'info', fields: { session_id: 'b-old' } },
    ])
  })

  it('stops when it is told to', async () => {
    const abort = new AbortController()
    const { root, options, add } = sessions({
      signal: abort.signal,
      isCommitted: () => {
        abort.abort(new Error('stopping'))
        return false
      },
      explicit: false,
    })
    await add('a', 31)
    await add('b', 31)
    await expect(sweepSessions(options)).rejects.toThrow('stopping')
    expect(readdirSync(root)).toEqual(['a', 'b'])
  })
})

describe('sweepJournals', () => {
  /** Two sealed segments beside the active one, and what a commit of them says. */
  function seal(dir: string): Map<string, { sizeBytes: number; sha256: string }> {
    const committed = new Map<string, { sizeBytes: number; sha256: string }>()
    for (const name of ['events-001.jsonl.zst', 'events-002.jsonl.zst']) {
      const line = '{"seq":1,"type":"io.input","event_id":"a"}\n'
      const bytes = compress(Buffer.from(line))
      writeFileSync(join(dir, 'journal', name), bytes)
      utimesSync(join(dir, 'journal', name), 0, 0)
      committed.set(name, { sizeBytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') })
    }
    return committed
  }

  it('removes old segments that are committed, under the same guards, and holds the session meanwhile', async () => {
    const { root, options, add } = sessions({ lastSnapshotFailed: (id) => id === 'failed' })
    const names = ['current', 'failed', 'locked', 'old', 'undecided', 'uncommitted']
    const committed = new Map<string, ReturnType<typeof seal>>()
    for (const id of names) committed.set(id, seal(await add(id, 31)))
    const lock = await acquireSessionLock(join(root, 'locked'), { transport: 'test' })
    const held: boolean[] = []
    const swept = await sweepJournals({
      ...options,
      retainDays: 30,
      committedSegments: async (id) => {
        held.push(existsSync(join(root, id, 'session.lock')))
        if (id === 'undecided') throw new Error('the store does not answer')
        return id === 'uncommitted' ? undefined : committed.get(id)
      },
    })
    expect(swept).toEqual(['old'])
    expect(held).toEqual([true, true, true])
    for (const id of names) {
      expect(existsSync(join(root, id, 'journal/events-001.jsonl.zst'))).toBe(id !== 'old')
      expect(existsSync(join(root, id, 'journal/events-002.jsonl.zst'))).toBe(true)
      expect(existsSync(join(root, id, 'journal/events.jsonl'))).toBe(true)
      expect(existsSync(join(root, id, 'session.lock'))).toBe(id === 'locked')
    }
    lock.release()
  })
})
