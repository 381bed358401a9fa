import { mkdirSync, openSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { decompress } from 'zstd-napi'
import { describe, expect, it } from 'vitest'
import { silentLogger, systemClock, noFailpoint } from '@nexus/host'
import { event, openWriter, range, readAll, seqsOf } from '../../test/support/events.ts'
import { faultyFs, systemError, type FsCall } from '../../test/support/faulty-fs.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import { until } from '../../test/support/until.ts'
import { DurableLog } from '../log/durable-log.ts'
import { nodeFs, type JournalFs } from '../files/journal-fs.ts'
import { encodeRecord } from '../format/record.ts'
import { rotate } from './rotation.ts'
import { readLastSeqOfSegment } from '../segment/segment-seq.ts'
import { verify } from '../read/verify.ts'
import type { JournalWriter } from './writer.ts'

function sealedIn(dir: string): string[] {
  return readdirSync(dir)
    .filter((name) => name.startsWith('events-'))
    .toSorted()
}

async function rotated(writer: JournalWriter, dir: string): Promise<void> {
  const before = sealedIn(dir).length
  await writer.turnEnded()
  await until(() => sealedIn(dir).length > before, 'a segment is sealed')
}

function opensSegment({ name, args }: FsCall): boolean {
  return name === 'openSync' && String(args[0]).includes('.zst')
}

describe('rotation', () => {
  it('happens at a turn end that leaves the active segment large enough, and only then', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { rotateBytes: 2000 })
    writer.append(event('a'))
    await writer.turnEnded()
    for (let i = 0; i < 30; i++) writer.append(event('a'), { writeThrough: true })
    await writer.barrier()
    expect(sealedIn(dir)).toEqual([])
    const lines = readFileSync(`${dir}/events.jsonl`)
    await writer.turnEnded()
    await writer.close()
    expect(sealedIn(dir)).toEqual(['events-001.jsonl.zst'])
    expect(decompress(readFileSync(`${dir}/events-001.jsonl.zst`)).equals(lines)).toBe(true)
    expect(statSync(`${dir}/events.jsonl`).size).toBe(0)
    expect(statSync(`${dir}/events-001.jsonl.zst`).mode & 0o077).toBe(0)
  })

  it('holds up neither appends nor write-through while it runs', async () => {
    const dir = tempDir()
    let writer: JournalWriter | undefined
    const seen: string[] = []
    const failpoint = (name: string): void => {
      // Between a change of the file and its being noted nothing else can run.
      if (!writer || !name.startsWith('rotate:') || name === 'rotate:truncated') return
      const seq = writer.append(event(name), { writeThrough: true })
      // With the kernel: another reader of the file sees it at once.
      if (readFileSync(`${dir}/events.jsonl`, 'utf8').includes(`"seq":${seq},`)) seen.push(name)
    }
    writer = await openWriter(dir, { rotateBytes: 1000, failpoint })
    for (let i = 0; i < 100; i++) writer.append(event('a'))
    await writer.turnEnded()
    await until(() => seen.at(-1) === 'rotate:tail-renamed', 'the rotation is done')
    const last = await writer.close().then(() => writer.lastSeq)
    expect(seen).toEqual([
      'rotate:begin',
      'rotate:slice',
      'rotate:sealed',
      'rotate:renamed',
      'rotate:dir-synced',
      'rotate:tail-copied',
      'rotate:tail-synced',
      'rotate:tail-renamed',
    ])
    expect(seqsOf(await readAll(dir))).toEqual(range(1, last))
    expect(await verify(dir)).toMatchObject({ ok: true, duplicates: 0 })
  })

  it('is given up when a sync fails meanwhile: what it read may not be what was written', async () => {
    const dir = tempDir()
    let failing = false
    const fs = faultyFs(({ name }) => {
      if (!failing || name !== 'fdatasync') return undefined
      failing = false
      return systemError('EIO')
    })
    let writer: JournalWriter | undefined
    const warnings: unknown[] = []
    const logger = { ...silentLogger, warn: (fields: unknown) => void warnings.push(fields) }
    const failpoint = (name: string): void => {
      if (name !== 'rotate:slice' || warnings.length > 0) return
      writer?.append(event('meanwhile'), { writeThrough: true })
      failing = true
    }
    writer = await openWriter(dir, { rotateBytes: 1, fs, failpoint, logger })
    writer.append(event('a'))
    await writer.turnEnded()
    await until(() => warnings.length > 0, 'the rotation is given up')
    expect(sealedIn(dir)).toEqual([])
    await rotated(writer, dir)
    await writer.close()
    expect(await verify(dir)).toMatchObject({ ok: true, events: 2, duplicates: 0 })
  })

  it('takes the lines out of the active segment only while no sync is going on', async () => {
    const dir = tempDir()
    const order: string[] = []
    // The first of each after the rename: the fsync of the directory, then the sync of the barrier. Unless the first waits
    // for the second, the rotation may well be done before there is a sync that it could disturb.
    const held = new Map<string, () => void>()
    const real = faultyFs(() => undefined)
    const fs = new Proxy(real, {
      get: (target, name: keyof JournalFs) => {
        if ((name !== 'fdatasync' && name !== 'fsync') || !order.includes('rotate:renamed') || held.has(name)) {
          return target[name]
        }
        return (fd: number, callback: (error: Error | null) => void) => {
          held.set(name, () => target[name](fd, callback))
        }
      },
    })
    const writer = await openWriter(dir, { rotateBytes: 1, fs, failpoint: (name) => void order.push(name) })
    writer.append(event('a'))
    await writer.turnEnded()
    await until(() => order.includes('rotate:renamed'), 'the segment has its name')
    writer.append(event('b'))
    const barrier = writer.barrier()
    await until(() => held.has('fdatasync') && held.has('fsync'), 'a sync is going on')
    held.get('fsync')?.()
    await until(() => order.includes('rotate:dir-synced'), 'the name is durable')
    for (let i = 0; i < 100; i++) await new Promise(setImmediate)
    expect(order).not.toContain('rotate:tail-copied')
    expect(order).not.toContain('rotate:truncated')
    held.get('fdatasync')?.()
    await barrier
    await until(() => order.includes('rotate:tail-renamed'), 'the rotation is done')
    await writer.close()
    expect(await verify(dir)).toMatchObject({ ok: true, events: 2, duplicates: 0 })
  })

  it('does not take for synced what was appended right before the new file took the name', async () => {
    const dir = tempDir()
    const fs = faultyFs(() => undefined)
    let writer: JournalWriter | undefined
    let done = false
    const failpoint = (name: string): void => {
      if (name === 'rotate:begin' || name === 'rotate:tail-synced') writer?.append(event(name), { writeThrough: true })
      if (name === 'rotate:tail-renamed') done = true
    }
    writer = await openWriter(dir, { rotateBytes: 1, fs, failpoint })
    writer.append(event('a'))
    await writer.turnEnded()
    await until(() => done, 'the rotation is done')
    const syncs = (): number => fs.calls.filter(({ name }) => name === 'fdatasync').length
    const before = syncs()
    await writer.barrier()
    expect(syncs()).toBe(before + 1)
    await writer.close()
    expect(seqsOf(await readAll(dir))).toEqual([1, 2, 3])
  })

  it('keeps up with turns that never let the event loop turn by themselves', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { rotateBytes: 100_000, fsync: 'none' })
    for (let turn = 0; turn < 30; turn++) {
      for (let i = 0; i < 100; i++) writer.append(event('a', 'x'.repeat(1000)))
      await writer.turnEnded()
    }
    expect(statSync(`${dir}/events.jsonl`).size).toBeLessThan(400_000)
    await writer.close()
    expect(sealedIn(dir).length).toBeGreaterThan(10)
    expect(await verify(dir)).toMatchObject({ ok: true, events: 3000, duplicates: 0 })
  })

  it('gives each segment a number above every one that the directory, an archive or a manifest knows', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { rotateBytes: 1, committedSegment: 4 })
    writer.append(event('a'))
    await rotated(writer, dir)
    writer.noteCommittedSegment(9)
    writer.noteCommittedSegment(7)
    writer.append(event('a'))
    await rotated(writer, dir)
    await writer.close()
    mkdirSync(`${dir}/archive/20261129T163412123Z`, { recursive: true })
    writeFileSync(`${dir}/archive/20261129T163412123Z/events-012.jsonl.zst`, '')
    const again = await openWriter(dir, { rotateBytes: 1 })
    again.append(event('a'))
    await rotated(again, dir)
    await again.close()
    expect(sealedIn(dir)).toEqual(['events-005.jsonl.zst', 'events-010.jsonl.zst', 'events-013.jsonl.zst'])
  })

  it('goes on past three digits, and is read in order of the numbers', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { rotateBytes: 1, committedSegment: 998 })
    for (let i = 0; i < 3; i++) {
      writer.append(event('a'))
      await rotated(writer, dir)
    }
    await writer.close()
    expect(sealedIn(dir)).toEqual(['events-1000.jsonl.zst', 'events-1001.jsonl.zst', 'events-999.jsonl.zst'])
    expect(seqsOf(await readAll(dir))).toEqual([1, 2, 3])
  })

  it.each(['openSync', 'readSync', 'writeSync', 'fsync', 'renameSync'] as const)(
    'that fails in %s leaves everything as it was, and the next turn tries again',
    async (failing) => {
      const dir = tempDir()
      let broken = false
      const fs = faultyFs(({ name, args }) => {
        const ours = name !== 'writeSync' || (args[1] as Buffer).subarray(0, 4).toString('hex') === '28b52ffd'
        return broken && name === failing && ours ? systemError('ENOSPC') : undefined
      })
      const warnings: unknown[] = []
      const logger = {
        debug: () => undefined,
        info: () => undefined,
        warn: (fields: unknown) => void warnings.push(fields),
        error: () => undefined,
      }
      const writer = await openWriter(dir, { rotateBytes: 1000, fs, logger })
      for (let i = 0; i < 100; i++) writer.append(event('a'))
      await writer.barrier()
      broken = true
      await writer.turnEnded()
      await until(() => warnings.length > 0, 'the rotation failed')
      broken = false
      expect(sealedIn(dir)).toEqual([])
      expect(readdirSync(dir).toSorted()).toEqual(['events.jsonl', 'header.json'])
      expect(writer.behind).toBeUndefined()
      writer.append(event('b'))
      await rotated(writer, dir)
      await writer.close()
      expect(await verify(dir)).toMatchObject({ ok: true, events: 101, duplicates: 0 })
      expect(fs.open.size).toBe(0)
    },
  )

  it('syncs the segment before its name, and the name before the lines leave the active segment', async () => {
    const dir = tempDir()
    const fs = faultyFs(() => undefined)
    const writer = await openWriter(dir, { rotateBytes: 1, fs })
    writer.append(event('a'))
    await writer.barrier()
    const from = fs.calls.length
    await rotated(writer, dir)
    await writer.close()
    const order = fs.calls
      .slice(from)
      .map(({ name }) => name)
      .filter((name) => ['fsync', 'renameSync', 'ftruncateSync'].includes(name))
    expect(order).toEqual(['fsync', 'renameSync', 'fsync', 'ftruncateSync'])
  })

  it('leaves a footer that tells the last seq without reading the segment', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { rotateBytes: 1 })
    for (let i = 0; i < 10; i++) writer.append(event('a'))
    await rotated(writer, dir)
    await writer.close()
    const path = `${dir}/events-001.jsonl.zst`
    expect(await readLastSeqOfSegment(path)).toBe(10)
    const bytes = readFileSync(path)
    writeFileSync(path, bytes.subarray(0, bytes.length - 48))
    expect(await readLastSeqOfSegment(path)).toBe(10)
  })

  it('begins without a turn end when a turn grows without bounds, and is not tried again and again when it fails', async () => {
    const dir = tempDir()
    let full = true
    const fs = faultyFs((call) => (full && opensSegment(call) ? systemError('ENOSPC') : undefined))
    const writer = await openWriter(dir, { fsync: 'none', rotateBytes: 1, fs })
    const text = 'x'.repeat(16 * 1024 * 1024)
    for (let i = 0; i < 10; i++) {
      writer.append(event('a', text))
      await new Promise(setImmediate)
    }
    expect(fs.calls.filter(opensSegment)).toHaveLength(1)
    full = false
    await rotated(writer, dir)
    await writer.close()
    expect(sealedIn(dir)).toEqual(['events-002.jsonl.zst'])
    expect(await verify(dir)).toMatchObject({ ok: true, events: 10, duplicates: 0 })
  })

  it('never seals more than a reader accepts: the rest stays for the next time', async () => {
    const dir = tempDir()
    await (await openWriter(dir)).close()
    const log = new DurableLog(
      {
        dir,
        path: `${dir}/events.jsonl`,
        fs: nodeFs,
        clock: systemClock,
        logger: silentLogger,
        failpoint: noFailpoint,
        syncs: true,
        lostLine: String,
        onWritten: () => undefined,
        onError: () => undefined,
      },
      openSync(`${dir}/events.jsonl`, 'a+'),
      0,
      0,
    )
    for (const seq of range(1, 100)) log.push(encodeRecord(seq, event('a')), seq, true)
    const maxBytes = 1000
    for (let number = 1; log.sizeBytes > 0; number++) {
      const sealed = await rotate({ fs: nodeFs, dir, log, number, failpoint: noFailpoint, maxBytes })
      expect(decompress(readFileSync(`${dir}/${sealed?.name}`)).length).toBeLessThanOrEqual(maxBytes)
      expect(await readLastSeqOfSegment(`${dir}/${sealed?.name}`)).toBe(sealed?.lastSeq)
    }
    await log.close()
    expect(sealedIn(dir).length).toBeGreaterThan(10)
    expect(await verify(dir)).toMatchObject({ ok: true, events: 100, duplicates: 0 })
  })
})
