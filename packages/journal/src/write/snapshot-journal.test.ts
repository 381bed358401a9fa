import nodeFsModule, { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { event, openWriter, range, readAll, seqsOf } from '../../test/support/events.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import { verify } from '../read/verify.ts'
import { until } from '../../test/support/until.ts'

describe('snapshot', () => {
  it('holds everything appended before it and nothing later, while appends go on', async () => {
    const root = tempDir()
    const dir = `${root}/journal`
    const dest = `${root}/staging`
    mkdirSync(dest)
    const writer = await openWriter(dir, { rotateBytes: 1000 })
    for (let i = 0; i < 50; i++) writer.append(event('a'))
    await writer.turnEnded()
    for (let i = 0; i < 10; i++) writer.append(event('b'))
    const taking = writer.snapshot(dest)
    const late = setInterval(() => writer.append(event('late'), { writeThrough: true }), 1)
    const snapshot = await taking
    clearInterval(late)
    writer.append(event('later'), { writeThrough: true })

    expect(snapshot.sealed.map(({ name }) => name)).toEqual(['events-001.jsonl.zst'])
    for (const { name, path, sizeBytes } of [snapshot.header, ...snapshot.sealed]) {
      expect(path).toBe(`${dir}/${name}`)
      expect(statSync(path).size).toBe(sizeBytes)
    }
    expect(snapshot.active.path).toBe(`${dest}/events.jsonl`)
    expect(statSync(snapshot.active.path).size).toBe(snapshot.active.sizeBytes)
    for (const file of [snapshot.header, ...snapshot.sealed])
      nodeFsModule.copyFileSync(file.path, `${dest}/${file.name}`)
    const events = await readAll(dest)
    expect(seqsOf(events)).toEqual(range(1, snapshot.lastSeq))
    expect(snapshot.lastSeq).toBeGreaterThanOrEqual(60)
    expect(events.some(({ type }) => type === 'later')).toBe(false)
    await writer.close()
  })

  it('waits for a running rotation', async () => {
    const root = tempDir()
    mkdirSync(`${root}/staging`)
    const order: string[] = []
    const failpoint = (name: string): void => void order.push(name)
    const writer = await openWriter(`${root}/journal`, { rotateBytes: 1, failpoint })
    writer.append(event('a'))
    await writer.turnEnded()
    writer.append(event('b'))
    const snapshot = await writer.snapshot(`${root}/staging`)
    await writer.close()
    expect(order.indexOf('rotate:begin')).toBeGreaterThanOrEqual(0)
    const done = Math.max(order.indexOf('rotate:truncated'), order.indexOf('rotate:tail-renamed'))
    expect(order.indexOf('snapshot:begin')).toBeGreaterThan(done)
    expect(snapshot.sealed).toHaveLength(1)
  })

  it('keeps rotations away until the copy is done, and then lets the one begin that was due', async () => {
    const root = tempDir()
    mkdirSync(`${root}/staging`)
    const order: string[] = []
    const failpoint = (name: string): void => void order.push(name)
    const writer = await openWriter(`${root}/journal`, { rotateBytes: 30_500_000, failpoint, fsync: 'none' })
    // More than is copied in one slice, and a little less than is sealed before.
    for (let i = 0; i < 30; i++) writer.append(event('a', 'x'.repeat(1_000_000)))
    const taking = writer.snapshot(`${root}/staging`)
    await until(() => order.includes('snapshot:begin'), 'the copy begins')
    expect(order).not.toContain('snapshot:copied')
    writer.append(event('a', 'x'.repeat(1_000_000)))
    await writer.turnEnded()
    await taking
    await until(() => order.includes('rotate:begin'), 'the rotation begins')
    expect(order.indexOf('rotate:begin')).toBeGreaterThan(order.indexOf('snapshot:copied'))
    await writer.close()
  })

  it('seals a segment that is large enough first, so that a session without turns rotates, and stores each line once', async () => {
    const root = tempDir()
    mkdirSync(`${root}/staging`)
    const writer = await openWriter(`${root}/journal`, { rotateBytes: 1000 })
    for (let commit = 1; commit <= 3; commit++) {
      for (let i = 0; i < 10; i++) writer.append(event('a', 'x'.repeat(100)))
      const snapshot = await writer.snapshot(`${root}/staging`)
      expect(snapshot).toMatchObject({ lastSeq: commit * 10, active: { sizeBytes: 0 } })
      expect(snapshot.sealed).toHaveLength(commit)
    }
    writer.append(event('a'))
    expect((await writer.snapshot(`${root}/staging`)).sealed).toHaveLength(3)
    await writer.close()
    expect(await verify(`${root}/journal`)).toMatchObject({ ok: true, events: 31 })
  })

  it('works after close', async () => {
    const root = tempDir()
    mkdirSync(`${root}/staging`)
    const writer = await openWriter(`${root}/journal`)
    writer.append(event('a'))
    await writer.close()
    const snapshot = await writer.snapshot(`${root}/staging`)
    expect(snapshot).toMatchObject({ lastSeq: 1, sealed: [] })
    expect(readFileSync(snapshot.active.path, 'utf8')).toBe(readFileSync(`${root}/journal/events.jsonl`, 'utf8'))
  })

  it('never writes over the journal itself', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir)
    writer.append(event('a'))
    await expect(writer.snapshot(dir)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await writer.close()
    expect(await readAll(dir)).toHaveLength(1)
  })

  it('says what failed when the destination is missing, and rotations go on', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { rotateBytes: 1 })
    writer.append(event('a'))
    await expect(writer.snapshot(`${dir}/missing`)).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await writer.turnEnded()
    await writer.close()
    expect(existsSync(`${dir}/events-001.jsonl.zst`)).toBe(true)
  })
})
