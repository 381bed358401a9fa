import { closeSync, existsSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { silentLogger } from '@nexus/host'
import { keepingLogger, ManualClock } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import type { DatabaseInstant } from '../../src/pages/instant.ts'
import type { StorageManager } from '../../src/storage-manager.ts'
import { fill } from '../sample-database.ts'
import { tempManager } from '../temp-dir.ts'

const LARGE_KB = 1500

/** Captures session scope and reads every database whole. */
async function captureAll(
  manager: StorageManager,
  dir: string,
  since: readonly DatabaseInstant[] = [],
): Promise<{ instants: DatabaseInstant[]; images: Buffer[] }> {
  const known = new Map(since.map(({ livePath, id }) => [livePath, id]))
  const instants = await manager.capture('session', join(dir, 'copies'), { since: known })
  const images = await Promise.all(instants.map((instant) => instant.read(0, instant.pageSize * instant.pageCount)))
  for (const instant of instants) instant.release()
  return { instants, images }
}

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

/** What tells one generation of a WAL from the next. No lock is on a WAL, so it may be read. */
function generationOf(path: string): string {
  const header = Buffer.alloc(32)
  const fd = openSync(`${path}-wal`, 'r')
  readSync(fd, header, 0, header.length, 0)
  closeSync(fd)
  return header.toString('hex', 16, 24)
}

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  for (let turns = 0; !(await isTrue()); turns++) {
    if (turns > 2000) throw new Error('it did not happen')
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

describe('under page capture', () => {
  it('connections do not checkpoint by themselves; otherwise they do', () => {
    const { manager } = tempManager({ pageCapture: true })
    expect(manager.open('session', 'p').db.pragma('wal_autocheckpoint', { simple: true })).toBe(0)
    const { manager: other } = tempManager()
    expect(other.open('session', 'p').db.pragma('wal_autocheckpoint', { simple: true })).toBe(1000)
  })

  it('large and small databases of many turns are taken, in nine descriptors at most, and their WAL does not grow', async () => {
    const { manager, dir } = tempManager({ pageCapture: true })
    const small = manager.open('session', 'a')
    const large = manager.open('session', 'b')
    fill(large.db, LARGE_KB)
    const update = large.db.prepare('UPDATE big SET value = randomblob(1000) WHERE id % 20 = ?')
    let since: DatabaseInstant[] = []
    for (let turn = 0; turn < 12; turn++) {
      small.put('turn', `${turn}`)
      update.run(turn)
      const { instants, images } = await captureAll(manager, dir, since)
      expect(images.map((image, at) => image.equals([small, large][at]?.db.serialize() as Buffer))).toEqual([
        true,
        true,
      ])
      expect(instants.map(({ kind }) => kind)).toEqual(turn === 0 ? ['full', 'full'] : ['full', 'changed'])
      since = instants
    }
    expect(descriptorsOf(large.path)).toBeLessThanOrEqual(9)
    expect(descriptorsOf(small.path)).toBeLessThanOrEqual(5)
    expect(existsSync(join(dir, 'copies'))).toBe(false)
  })

  it('after the handles were closed the last turn is an increment, and nothing lies beside the file at the end', async () => {
    const { manager, dir } = tempManager({ pageCapture: true })
    const { db, path } = manager.open('session', 'b')
    fill(db, LARGE_KB)
    const { instants } = await captureAll(manager, dir)
    db.exec('DELETE FROM big WHERE id = 5')
    const expected = db.serialize()
    await manager.closeAll()
    const last = await captureAll(manager, dir, instants)
    expect(last.instants[0]?.kind).toBe('changed')
    expect(last.images[0]?.equals(expected)).toBe(true)
    await manager.dispose()
    expect([existsSync(`${path}-wal`), existsSync(`${path}-shm`)]).toEqual([false, false])
    await expect(manager.capture('session', join(dir, 'late'))).rejects.toMatchObject({ code: 'CLOSED' })
  })

  it('a WAL that grows while nobody captures is begun anew, and every change is still known', async () => {
    const clock = new ManualClock()
    const { manager, dir } = tempManager({ pageCapture: true, clock })
    const { db, path } = manager.open('session', 'b')
    fill(db, LARGE_KB)
    const { instants } = await captureAll(manager, dir)
    const update = db.prepare('UPDATE big SET value = randomblob(1000) WHERE id > ?')
    for (let n = 0; n < 14; n++) update.run(0)
    const generation = generationOf(path)
    // The checkpoint runs in a worker, and there is always one more commit before it is done.
    await until(async () => {
      await clock.advance(1000)
      update.run(LARGE_KB - 1)
      return generationOf(path) !== generation
    })
    const last = await captureAll(manager, dir, instants)
    expect(last.instants[0]?.kind).toBe('changed')
    expect(last.images[0]?.equals(db.serialize())).toBe(true)
  })

  it('locks that a plugin lost are told by name, and come back when it opens its database again', async () => {
    const logger = keepingLogger()
    const { manager, dir } = tempManager({ pageCapture: true, logger })
    const first = manager.open('session', 'b')
    fill(first.db, LARGE_KB)
    await captureAll(manager, dir)
    readFileSync(first.path)
    const lost = await manager.capture('session', join(dir, 'lost'))
    expect(lost[0]).toMatchObject({ kind: 'full' })
    for (const instant of lost) instant.release()
    expect(logger.lines.filter(({ level }) => level === 'warn')).toMatchObject([{ fields: { pluginId: 'b' } }])
    first.db.close()
    const second = manager.open('session', 'b')
    const { instants } = await captureAll(manager, join(dir, 'found'))
    second.db.exec('DELETE FROM big WHERE id = 5')
    const again = await captureAll(manager, join(dir, 'again'), instants)
    expect(again.instants[0]?.kind).toBe('changed')
    expect(again.images[0]?.equals(second.db.serialize())).toBe(true)
  })

  it('one database that fails lets all of them go, naming plugin and file', async () => {
    const { manager, dir } = tempManager({ pageCapture: true, busyTimeoutMs: 10, logger: silentLogger })
    const good = manager.open('session', 'a')
    fill(good.db, LARGE_KB)
    const bad = manager.open('session', 'b')
    bad.db.pragma('journal_mode = DELETE')
    bad.db.exec('CREATE TABLE x (y); BEGIN EXCLUSIVE')
    const failing = manager.capture('session', join(dir, 'copies'))
    await expect(failing).rejects.toMatchObject({
      code: 'LOCKED',
      key: bad.path,
      message: expect.stringContaining('plugin b'),
    })
    bad.db.exec('COMMIT')
    // A held one would refuse this.
    expect(await captureAll(manager, join(dir, 'again'))).toMatchObject({
      instants: [{ kind: 'full' }, { kind: 'full' }],
    })
  })

  it('a capture that was given up lets all of them go, too', async () => {
    const { manager, dir } = tempManager({ pageCapture: true })
    fill(manager.open('session', 'a').db, LARGE_KB)
    const controller = new AbortController()
    const captured = manager.capture('session', join(dir, 'copies'), { signal: controller.signal })
    controller.abort(new Error('enough'))
    await expect(captured).rejects.toThrow('enough')
    expect((await captureAll(manager, dir)).instants).toHaveLength(1)
  })
})
