import { mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { event, openWriter, range, readAll, seqsOf } from '../../test/support/events.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import { JournalReader } from '../read/reader.ts'
import { readOpenTurn } from '../replay/read-open-turn.ts'
import { rewind } from '../rewind/rewind.ts'
import { HeldDirectory } from './held-directory.ts'

/** A session with an open journal, and a directory outside that links will lead to. */
async function session() {
  const root = tempDir()
  const [dir, outside, aside] = [`${root}/s/journal`, `${root}/outside`, `${root}/s/aside`]
  mkdirSync(outside)
  mkdirSync(`${root}/staging`)
  const order: { visit?: (point: string) => void } = {}
  const writer = await openWriter(dir, { rotateBytes: 1, failpoint: (point) => order.visit?.(point) })
  const swap = (): void => {
    renameSync(dir, aside)
    symlinkSync(outside, dir)
  }
  const putBack = (): void => {
    unlinkSync(dir)
    renameSync(aside, dir)
  }
  return { root, dir, outside, aside, writer, order, swap, putBack }
}

describe('a journal directory that is swapped for a link', () => {
  it.each([
    'append:before-write',
    'sync:before',
    'rotate:begin',
    'rotate:sealed',
    'rotate:renamed',
    'rotate:truncated',
    'snapshot:begin',
  ])('at %s gets everything all the same, and nothing is written outside', async (point) => {
    const { dir, outside, writer, order, swap, putBack, root } = await session()
    let swapped = false
    order.visit = (name) => {
      if (name !== point || swapped) return
      swapped = true
      swap()
    }
    writer.append(event('a'))
    await writer.snapshot(`${root}/staging`).catch(() => undefined)
    expect(swapped).toBe(true)
    writer.append(event('b'))
    await writer.turnEnded()
    await writer.close()
    expect(readdirSync(outside)).toEqual([])
    putBack()
    expect(seqsOf(await readAll(dir))).toEqual(range(1, 2))
  })

  it('fails the next snapshot, which would name what is behind the link', async () => {
    const { root, dir, outside, writer, swap, putBack } = await session()
    writer.append(event('a'))
    swap()
    const failed = writer.snapshot(`${root}/staging`)
    await expect(failed).rejects.toMatchObject({ code: 'LOCAL_IO', key: dir })
    expect(readdirSync(outside)).toEqual([])
    putBack()
    expect(await writer.snapshot(`${root}/staging`)).toMatchObject({ lastSeq: 1 })
    await writer.close()
  })

  it('is refused by whoever opens, rewinds or reads its end', async () => {
    const { dir, outside, writer, swap } = await session()
    writer.append(event('a'))
    await writer.close()
    swap()
    await expect(openWriter(dir)).rejects.toMatchObject({ code: 'LOCAL_IO' })
    await expect(rewind(dir, 0, { lock: 'private' })).rejects.toMatchObject({ code: 'LOCAL_IO' })
    await expect(readOpenTurn(dir)).rejects.toMatchObject({ code: 'LOCAL_IO' })
    expect(readdirSync(outside)).toEqual([])
  })
})

describe('a directory inside the journal that is a link', () => {
  it('is refused, and the error names it as the caller does', async () => {
    const { dir, outside, writer } = await session()
    writer.append(event('a'))
    await writer.close()
    symlinkSync(outside, `${dir}/archive`)
    const error: unknown = await rewind(dir, 0, { lock: 'private' }).catch((caught: unknown) => caught)
    expect(error).toMatchObject({ code: 'LOCAL_IO' })
    expect(String(error)).toContain(`${dir}/archive`)
    expect(String(error)).not.toContain('/proc/')
    expect(readdirSync(outside)).toEqual([])
    expect(await (await JournalReader.open(dir)).lastSeq()).toBe(1)
  })
})

describe('HeldDirectory', () => {
  it('reaches what is below by ordinary paths, and passes others through', () => {
    const root = tempDir()
    mkdirSync(`${root}/held/inner`, { recursive: true })
    writeFileSync(`${root}/other`, 'other')
    const held = new HeldDirectory(`${root}/held`)
    const fd = held.fs.openSync(`${root}/held/inner/file`, 'wx', 0o600)
    held.fs.writeSync(fd, Buffer.from('text'))
    held.fs.closeSync(fd)
    held.fs.renameSync(`${root}/held/inner/file`, `${root}/held/file`)
    expect(held.fs.readdirSync(`${root}/held`).toSorted()).toEqual(['file', 'inner'])
    held.fs.closeSync(held.fs.openSync(`${root}/other`, 'r'))
    expect(() => held.fs.openSync(`${root}/held/none`, 'r')).toThrow(`${root}/held/none`)
    expect(() => held.fs.unlinkSync(`${root}/held/x/y`)).toThrow(/ENOENT/)
    held.close()
    expect(readFileSync(`${root}/held/file`, 'utf8')).toBe('text')
  })
})
