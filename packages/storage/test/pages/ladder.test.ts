import { readFileSync, renameSync, rmSync, copyFileSync, readdirSync, readlinkSync } from 'node:fs'
import { keepingLogger } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import { CaptureCase, differingPages } from './capture-case.ts'

function filled(options: ConstructorParameters<typeof CaptureCase>[0] = {}): CaptureCase {
  const test = new CaptureCase(options)
  const insert = test.db.prepare('INSERT INTO rows (body) VALUES (randomblob(2000))')
  for (let rows = 0; rows < 100; rows++) insert.run()
  return test
}

/** What a capture says and gives, of a database that nobody changes meanwhile. */
async function captureAll(test: CaptureCase): Promise<{ kind: string; isRight: boolean }> {
  const instant = await test.take()
  await test.read(instant)
  const all = await instant.read(0, test.image.length)
  instant.release()
  await test.settled()
  const expected = test.db.serialize()
  return { kind: instant.kind, isRight: test.image.equals(expected) && all.equals(expected) }
}

/** The descriptors of this process that lead to a database, its WAL or its index. */
function descriptorsOf(path: string): number {
  const targets = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`)
    } catch {
      return ''
    }
  })
  return targets.filter((target) => target.startsWith(path)).length
}

describe('what a capture costs', () => {
  it('is nothing when nothing was committed', async () => {
    const test = filled()
    expect(await captureAll(test)).toEqual({ kind: 'full', isRight: true })
    const steps: string[] = []
    test.onStep = (step) => void steps.push(step)
    const instant = await test.take()
    instant.release()
    expect(instant).toMatchObject({ kind: 'nothing', changed: [] })
    expect(steps).toEqual([])
  })

  it('is the pages that changed', async () => {
    const test = filled()
    await captureAll(test)
    test.db.exec('UPDATE rows SET body = zeroblob(2000) WHERE id = 50')
    const instant = await test.take()
    expect(instant.kind).toBe('changed')
    expect(instant.changed.reduce((sum, { count }) => sum + count, 0)).toBeLessThan(4)
    await test.read(instant)
    expect(differingPages(test.image, test.db.serialize(), 4096)).toEqual([])
    instant.release()
  })

  it('is the pages of every capture since the one that was stored', async () => {
    const test = filled()
    const stored = await test.take()
    await test.read(stored)
    stored.release()
    const image = Buffer.from(test.image)
    for (const id of [3, 97]) {
      test.db.exec(`UPDATE rows SET body = zeroblob(2000) WHERE id = ${id}`)
      const lost = await test.take()
      expect(lost.kind).toBe('changed')
      lost.release()
    }
    const last = await test.take()
    expect(last.kind).toBe('changed')
    await test.read(last)
    last.release()
    expect(image.equals(test.image)).toBe(false)
    expect(differingPages(test.image, test.db.serialize(), 4096)).toEqual([])
  })

  it('is everything when the instant to compare with is of another run', async () => {
    const test = filled()
    await captureAll(test)
    await test.restart()
    expect(await captureAll(test)).toEqual({ kind: 'full', isRight: true })
  })

  it('is the pages that changed when the WAL was empty, as after a start of the program', async () => {
    const test = filled()
    test.db.pragma('wal_checkpoint(TRUNCATE)')
    await captureAll(test)
    test.connect().exec('DELETE FROM rows WHERE id = 7')
    expect(await captureAll(test)).toEqual({ kind: 'changed', isRight: true })
  })

  it('names pages that vanished, so that the chunk that the database now ends in is stored anew', async () => {
    const test = filled({ autoVacuum: 'full' })
    await captureAll(test)
    test.db.exec('DELETE FROM rows WHERE id > 50')
    const instant = await test.take()
    const last = instant.changed.at(-1)
    expect(last && last.first + last.count - 1).toBe(test.image.length / 4096)
    expect(instant.pageCount).toBeLessThan(test.image.length / 4096)
    instant.release()
  })

  it('is four descriptors while it is pinned, and none before', async () => {
    const test = filled()
    const before = descriptorsOf(test.path)
    await captureAll(test)
    expect(descriptorsOf(test.path)).toBe(before + 4)
    await test.captured.close()
    // SQLite keeps those of the database file until the last lock goes.
    expect(descriptorsOf(test.path)).toBeLessThanOrEqual(before + 2)
  })
})

describe('a small database', () => {
  it('is read whole when something was committed, and not at all otherwise', async () => {
    const test = filled({ smallBytes: 1024 * 1024 })
    const before = descriptorsOf(test.path)
    expect(await captureAll(test)).toEqual({ kind: 'full', isRight: true })
    expect(await captureAll(test)).toEqual({ kind: 'nothing', isRight: true })
    test.db.exec('DELETE FROM rows WHERE id = 7')
    expect(await captureAll(test)).toEqual({ kind: 'full', isRight: true })
    expect(test.captured.isPinned).toBe(false)
    expect(descriptorsOf(test.path)).toBeLessThanOrEqual(before + 1)
  })

  it('can not be read any more at an instant that nothing had changed at, once it has moved on', async () => {
    const test = filled({ smallBytes: 1024 * 1024 })
    await captureAll(test)
    const instant = await test.take()
    test.db.exec('DELETE FROM rows WHERE id = 7')
    await expect(instant.read(0, 100)).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true })
    instant.release()
    expect(await captureAll(test)).toEqual({ kind: 'full', isRight: true })
  })

  it('without a single page has nothing to read', async () => {
    const test = new CaptureCase({ smallBytes: 1024 * 1024 })
    expect(await captureAll(test)).toEqual({ kind: 'full', isRight: true })
  })
})

describe('a pin on a database that rests', () => {
  const HOUR_MS = 3_600_000

  it('is let go, and nothing has changed until something is committed', async () => {
    const test = filled()
    await captureAll(test)
    test.captured.tick(0)
    test.captured.tick(HOUR_MS)
    expect(test.captured.isPinned).toBe(false)
    const instant = await test.take()
    expect(instant.kind).toBe('nothing')
    instant.release()
    expect(test.captured.isPinned).toBe(false)
    expect(await captureAll(test)).toEqual({ kind: 'nothing', isRight: true })
    test.captured.tick(2 * HOUR_MS)
    test.captured.tick(4 * HOUR_MS)
    test.db.exec('DELETE FROM rows WHERE id = 7')
    expect(await captureAll(test)).toEqual({ kind: 'full', isRight: true })
  })

  it('stays while somebody writes now and then', async () => {
    const test = filled()
    await captureAll(test)
    for (let tick = 0; tick < 3; tick++) {
      test.db.exec('UPDATE rows SET body = randomblob(2000) WHERE id = 8')
      test.captured.tick(tick * HOUR_MS)
    }
    expect(await captureAll(test)).toEqual({ kind: 'changed', isRight: true })
  })
})

describe('when SQLite has to copy', () => {
  it('a database that is not in WAL mode, everything is read each time', async () => {
    const test = filled({ journalMode: 'DELETE' })
    for (const copies of [1, 2]) {
      expect((await captureAll(test)).kind).toBe('full')
      expect(test.copies).toEqual(Array.from({ length: copies }, () => 'here'))
    }
    expect(test.captured.isPinned).toBe(false)
  })

  it('one that others have for themselves, the capture fails as a copy does', async () => {
    const test = filled({ journalMode: 'DELETE' })
    test.db.exec('BEGIN EXCLUSIVE')
    await expect(test.take()).rejects.toMatchObject({ code: 'SQLITE_BUSY' })
    test.db.exec('COMMIT')
    ;(await test.take()).release()
  })

  it('small ones are read in memory', async () => {
    const test = filled({ journalMode: 'DELETE', smallBytes: 1024 * 1024 })
    expect(await captureAll(test)).toEqual({ kind: 'full', isRight: true })
    expect(test.copies).toEqual([])
  })
})

describe('locks that are lost', () => {
  it('because something read the file, are told with the plugin and the cause, once, and a child copies', async () => {
    const logger = keepingLogger()
    const test = filled({ logger })
    await captureAll(test)
    readFileSync(test.path)
    for (const id of [7, 8]) {
      test.db.exec(`DELETE FROM rows WHERE id = ${id}`)
      expect((await captureAll(test)).kind).toBe('full')
    }
    expect(test.copies).toEqual(['in a child', 'in a child'])
    expect(logger.lines.map(({ level, fields, message }) => [level, fields['pluginId'], message])).toEqual([
      ['warn', 'plugin', expect.stringMatching(/lost its locks .*readFile/)],
    ])
  })

  it('while pages are read, fail that read', async () => {
    const test = filled()
    const instant = await test.take()
    test.onStep = (step) => void (step === 'pages:before-read' && readFileSync(test.path))
    await expect(instant.read(0, 10)).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true })
    instant.release()
  })

  it('between the look for them and the read transaction, refuse the increment', async () => {
    const test = filled({ logger: keepingLogger() })
    await captureAll(test)
    test.db.exec('DELETE FROM rows WHERE id = 7')
    test.onStep = (step) => void (step === 'pages:index-read' && readFileSync(test.path))
    const instant = await test.take()
    expect(instant.kind).toBe('full')
    expect(test.copies).toEqual(['in a child'])
    instant.release()
  })
})

describe('files that are not there any more', () => {
  it('a WAL that was removed with content fails the capture', async () => {
    const test = filled()
    await captureAll(test)
    test.db.exec('DELETE FROM rows WHERE id = 7')
    rmSync(`${test.path}-wal`)
    await expect(test.take()).rejects.toMatchObject({ code: expect.stringMatching(/^SQLITE_/) })
  })

  it('an index that was removed leaves the reading to SQLite, which has it in memory', async () => {
    const test = filled()
    await captureAll(test)
    rmSync(`${test.path}-shm`)
    test.db.exec('DELETE FROM rows WHERE id = 7')
    expect((await captureAll(test)).kind).toBe('full')
    expect(test.copies).toEqual(['here'])
  })

  it('another file in place of the database is read as what it is', async () => {
    const test = filled()
    await captureAll(test)
    test.db.pragma('wal_checkpoint(TRUNCATE)')
    test.db.close()
    const other = new CaptureCase()
    other.db.exec('INSERT INTO rows (body) VALUES (zeroblob(9000))')
    other.db.pragma('wal_checkpoint(TRUNCATE)')
    copyFileSync(other.path, `${test.path}-new`)
    renameSync(`${test.path}-new`, test.path)
    const instant = await test.take()
    expect(instant.kind).toBe('full')
    await test.read(instant)
    instant.release()
    expect(differingPages(test.image, other.db.serialize(), 4096)).toEqual([])
  })
})

describe('an instant', () => {
  it('is held alone: the next capture is refused until it is released', async () => {
    const test = filled()
    const instant = await test.take()
    await expect(test.take()).rejects.toMatchObject({ code: 'PRECONDITION' })
    instant.release()
    instant.release()
    await expect(instant.read(0, 1)).rejects.toMatchObject({ code: 'CLOSED' })
    ;(await test.take()).release()
  })

  it('ends with everything else, and a capture that was waiting is refused', async () => {
    const test = filled()
    const instant = await test.take()
    const waiting = test.take()
    await test.captured.close()
    await expect(waiting).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(instant.read(0, 1)).rejects.toMatchObject({ code: 'CLOSED' })
    expect(test.captured.isPinned).toBe(false)
  })

  it('that is released while it is read lets the read end', async () => {
    const test = filled()
    const instant = await test.take()
    const reading = instant.read(0, 100_000)
    instant.release()
    const closed = test.captured.close()
    expect((await reading).equals(test.db.serialize().subarray(0, 100_000))).toBe(true)
    await closed
  })

  it('whose unchanged pages turn out changed is told as a defect, and the next one is full', async () => {
    const logger = keepingLogger()
    const test = filled({ logger })
    await captureAll(test)
    const instant = await test.take()
    instant.distrust([{ first: 3, count: 1 }])
    instant.release()
    expect(logger.lines).toMatchObject([
      { level: 'error', fields: { pluginId: 'plugin', pages: [{ first: 3, count: 1 }] } },
    ])
    expect(await captureAll(test)).toEqual({ kind: 'full', isRight: true })
  })
})
