import { appendFileSync, existsSync, readdirSync, readFileSync, statSync, truncateSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { event, openWriter, range, readAll, seqsOf } from '../../test/support/events.ts'
import { faultyFs, systemError } from '../../test/support/faulty-fs.ts'
import { ManualClock } from '../../test/support/manual-clock.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import type { JournalEnvelope } from '../format/record.ts'
import { listArchives, restore, rewind } from './rewind.ts'
import { verify } from '../read/verify.ts'

/** Three sealed segments of 10 events each, and 5 in the active one. */
async function journal(): Promise<string> {
  const dir = tempDir()
  for (let segment = 0; segment < 3; segment++) {
    const writer = await openWriter(dir, { rotateBytes: 1 })
    for (let i = 0; i < 10; i++) writer.append(event('a', { text: 'é' }))
    await writer.turnEnded()
    await writer.close()
  }
  const writer = await openWriter(dir)
  for (let i = 0; i < 5; i++) writer.append(event('a'))
  await writer.close()
  return dir
}

const clock = new ManualClock()

function namesIn(dir: string): string[] {
  return readdirSync(dir).toSorted()
}

describe('rewind', () => {
  it.each([0, 1, 9, 10, 11, 20, 25, 30, 31, 34, 35])(
    'ends the journal at seq %i, and keeps the whole one aside',
    async (toSeq) => {
      const dir = await journal()
      const before = await readAll(dir)
      const { lastSeq, archive } = await rewind(dir, toSeq, { lock: 'private', clock })
      expect(lastSeq).toBe(toSeq)
      expect(await readAll(dir)).toEqual(before.slice(0, toSeq))
      expect(await verify(dir)).toMatchObject({ ok: true, duplicates: 0 })
      expect(archive).toBe('20261129T163412123Z')
      expect(await readAll(`${dir}/archive/${archive}`)).toEqual(before)
      const writer = await openWriter(dir)
      expect(writer.append(event('again'))).toBe(toSeq + 1)
      await writer.close()
      expect(namesIn(dir).filter((name) => name.startsWith('.') || name.startsWith('rewind'))).toEqual([])
    },
  )

  it('never gives a new segment the number of one that was set aside', async () => {
    const dir = await journal()
    await rewind(dir, 12, { lock: 'private', clock })
    expect(namesIn(dir).filter((name) => name.endsWith('.zst'))).toEqual(['events-001.jsonl.zst'])
    const writer = await openWriter(dir, { rotateBytes: 1 })
    writer.append(event('again'))
    await writer.turnEnded()
    await writer.close()
    expect(namesIn(dir).filter((name) => name.endsWith('.zst'))).toEqual([
      'events-001.jsonl.zst',
      'events-004.jsonl.zst',
    ])
    expect(seqsOf(await readAll(dir))).toEqual(range(1, 13))
  })

  it.each([-1, 36, 1.5, Number.NaN])('refuses seq %d and changes nothing', async (toSeq) => {
    const dir = await journal()
    const before = namesIn(dir)
    await expect(rewind(dir, toSeq, { lock: 'private' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(namesIn(dir)).toEqual(before)
  })

  it('refuses a directory without a journal', async () => {
    await expect(rewind(tempDir(), 0, { lock: 'private' })).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  it('works on a journal whose end is torn, or lacks its newline', async () => {
    const dir = await journal()
    const path = `${dir}/events.jsonl`
    truncateSync(path, statSync(path).size - 1)
    await rewind(dir, 35, { lock: 'private', clock })
    expect(seqsOf(await readAll(dir))).toEqual(range(1, 35))
    appendFileSync(path, '{"seq":36,"ty')
    await rewind(dir, 33, { lock: 'private', clock })
    expect(seqsOf(await readAll(dir))).toEqual(range(1, 33))
  })

  it('copies where the file system has no links', async () => {
    const dir = await journal()
    const before = await readAll(dir)
    const fs = faultyFs(({ name }) => (name === 'linkSync' ? systemError('EPERM') : undefined))
    const { archive } = await rewind(dir, 12, { lock: 'private', clock, fs })
    await restore(dir, archive, { lock: 'private', clock, fs })
    expect(await readAll(dir)).toEqual(before)
    expect(fs.open.size).toBe(0)
  })

  it('fails before the decision without any change to the journal', async () => {
    const dir = await journal()
    const before = await readAll(dir)
    for (const failing of ['mkdirSync', 'openSync', 'writeSync', 'fsync', 'renameSync'] as const) {
      let calls = 0
      const fs = faultyFs(({ name, args }) => {
        const writes = name !== 'openSync' || args[1] === 'w'
        return name === failing && writes && calls++ === 0 ? systemError('ENOSPC') : undefined
      })
      await expect(rewind(dir, 12, { lock: 'private', clock, fs })).rejects.toMatchObject({
        code: 'LOCAL_IO',
        cause: { code: 'ENOSPC' },
      })
      expect(await readAll(dir)).toEqual(before)
      expect(fs.open.size).toBe(0)
    }
  })
})

describe('restore', () => {
  it('brings a journal back, and keeps the one it replaces', async () => {
    const dir = await journal()
    const original = await readAll(dir)
    const first = await rewind(dir, 12, { lock: 'private', clock })
    const writer = await openWriter(dir, { rotateBytes: 1 })
    for (let i = 0; i < 5; i++) writer.append(event('other path'))
    await writer.turnEnded()
    await writer.close()
    const otherPath = await readAll(dir)

    const second = await restore(dir, first.archive, { lock: 'private', clock })
    expect(second).toEqual({ lastSeq: 35, archive: '20261129T163412123Z-1' })
    expect(await readAll(dir)).toEqual(original)
    expect(await verify(dir)).toMatchObject({ ok: true, duplicates: 0 })

    await restore(dir, second.archive, { lock: 'private', clock })
    expect(await readAll(dir)).toEqual(otherPath)
    expect((await listArchives(dir)).map(({ name, lastSeq }) => [name, lastSeq])).toEqual([
      ['20261129T163412123Z', 35],
      ['20261129T163412123Z-1', 17],
      ['20261129T163412123Z-2', 35],
    ])
  })

  it.each(['', '.', '..', '../x', 'x', '20261129T163412999Z'])('refuses %j', async (name) => {
    const dir = await journal()
    await rewind(dir, 12, { lock: 'private', clock })
    await expect(restore(dir, name, { lock: 'private' })).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(seqsOf(await readAll(dir))).toEqual(range(1, 12))
  })
})

describe('listArchives', () => {
  it('is empty where nothing was set aside', async () => {
    expect(await listArchives(await journal())).toEqual([])
    expect(await listArchives(`${tempDir()}/none`)).toEqual([])
  })

  it('tells size and place', async () => {
    const dir = await journal()
    const { archive } = await rewind(dir, 12, { lock: 'private', clock })
    const path = `${dir}/archive/${archive}`
    const sizeBytes = readdirSync(path).reduce((sum, name) => sum + statSync(`${path}/${name}`).size, 0)
    expect(await listArchives(dir)).toEqual([{ name: archive, path, lastSeq: 35, sizeBytes }])
  })
})

/** A rewind to 12, or a restore of the whole, that ended at `point`, and what the journal must read as. */
async function interrupted(
  point: string,
  work: 'rewind' | 'restore',
): Promise<{ dir: string; error: unknown; expected: JournalEnvelope[] }> {
  const dir = await journal()
  const original = await readAll(dir)
  const failpoint = (name: string): void => {
    if (name === point) throw new Error('power is gone')
  }
  const before = work === 'restore' ? await rewind(dir, 12, { lock: 'private', clock }) : undefined
  const changing = before
    ? restore(dir, before.archive, { lock: 'private', clock, failpoint })
    : rewind(dir, 12, { lock: 'private', clock, failpoint })
  const error = await changing.catch((caught: unknown) => caught)
  return { dir, error, expected: before ? original : original.slice(0, 12) }
}

describe('a rewind that was interrupted after the decision', () => {
  const points = [
    'rewind:decided',
    'rewind:segments-linked',
    'rewind:active-renamed',
    'rewind:segments-removed',
  ] as const

  it.each(points.flatMap((point) => [[point, 'rewind'] as const, [point, 'restore'] as const]))(
    'at %s of a %s reads as the new journal, and the next open finishes it',
    async (point, work) => {
      const { dir, error, expected } = await interrupted(point, work)
      expect(error).toMatchObject({ cause: { message: 'power is gone' } })
      expect(await readAll(dir)).toEqual(expected)
      const writer = await openWriter(dir)
      expect(writer.lastSeq).toBe(expected.length)
      await writer.close()
      expect(await readAll(dir)).toEqual(expected)
      expect(existsSync(`${dir}/rewind.json`)).toBe(false)
      expect(await verify(dir)).toMatchObject({ ok: true, duplicates: 0 })
    },
  )

  it('says so when the decision cannot be read', async () => {
    const { dir } = await interrupted('rewind:decided', 'rewind')
    for (const text of [
      '',
      '{}',
      '{"schema_version":1,"archive":"../x","sealed":[]}',
      '{"schema_version":1,"archive":"20261129T163412123Z","sealed":["../x"]}',
    ]) {
      truncateSync(`${dir}/rewind.json`)
      appendFileSync(`${dir}/rewind.json`, text)
      await expect(openWriter(dir)).rejects.toMatchObject({ code: 'CORRUPT' })
    }
    expect(readFileSync(`${dir}/header.json`, 'utf8')).toContain('s1')
  })
})

describe('the lock of the session', () => {
  it('is held while the journal is changed, and given back, also after a failure', async () => {
    const dir = await journal()
    const calls: string[] = []
    const lock = async (): Promise<() => void> => {
      calls.push('locked')
      return () => void calls.push('released')
    }
    const failpoint = (name: string): void => void (name === 'rewind:decided' && calls.push(name))
    const { archive } = await rewind(dir, 12, { lock, clock, failpoint })
    expect(calls).toEqual(['locked', 'rewind:decided', 'released'])
    await restore(dir, archive, { lock, clock })
    await expect(rewind(dir, 99, { lock, clock })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(calls.slice(3)).toEqual(['locked', 'released', 'locked', 'released'])
  })

  it('is asked for, and what it says ends the rewind', async () => {
    const dir = await journal()
    const before = namesIn(dir)
    await expect(rewind(dir, 12, {} as never)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(restore(dir, 'x', {} as never)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    const lock = (): Promise<never> => Promise.reject(new Error('pid 7 holds the session'))
    await expect(rewind(dir, 12, { lock })).rejects.toThrow('pid 7')
    expect(namesIn(dir)).toEqual(before)
  })

  it('does not make up for a writer of this process', async () => {
    const dir = await journal()
    const writer = await openWriter(dir)
    await expect(rewind(dir, 12, { lock: 'private' })).rejects.toMatchObject({ code: 'LOCKED' })
    await writer.close()
    expect(await rewind(dir, 12, { lock: 'private' })).toMatchObject({ lastSeq: 12 })
  })
})
