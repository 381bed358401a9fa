import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { event, openWriter } from '../../test/support/events.ts'
import { ManualClock } from '../../test/support/manual-clock.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import { sweep } from './sweep.ts'

const clock = new ManualClock()

async function sessionAged(root: string, id: string, days: number): Promise<void> {
  const dir = `${root}/${id}/journal`
  const writer = await openWriter(dir)
  writer.append(event('a'))
  await writer.close()
  writeFileSync(`${root}/${id}/other`, 'kept')
  const time = (clock.now() - days * 86_400_000) / 1000
  for (const name of readdirSync(dir)) utimesSync(`${dir}/${name}`, time, time)
}

function unlessUndecided(id: string): boolean {
  if (id === 'a') throw new Error('cannot tell')
  return true
}

describe('sweep', () => {
  it('removes journals that are older than the days, and nothing else', async () => {
    const root = tempDir()
    await sessionAged(root, 'old', 31)
    await sessionAged(root, 'young', 29)
    await sessionAged(root, '.stale-x', 99)
    mkdirSync(`${root}/empty`)
    writeFileSync(`${root}/file`, '')
    expect(await sweep(root, 30, { clock })).toEqual(['old'])
    expect(readdirSync(`${root}/old`)).toEqual(['other'])
    expect(existsSync(`${root}/young/journal/events.jsonl`)).toBe(true)
    expect(existsSync(`${root}/.stale-x/journal/events.jsonl`)).toBe(true)
  })

  it('goes by the newest file', async () => {
    const root = tempDir()
    await sessionAged(root, 'a', 40)
    utimesSync(`${root}/a/journal/events.jsonl`, clock.now() / 1000, clock.now() / 1000)
    expect(await sweep(root, 30, { clock })).toEqual([])
  })

  it('asks before each removal', async () => {
    const root = tempDir()
    await sessionAged(root, 'locked', 40)
    await sessionAged(root, 'free', 40)
    expect(await sweep(root, 30, { clock, mayRemove: async (id) => id !== 'locked' })).toEqual(['free'])
    expect(existsSync(`${root}/locked/journal`)).toBe(true)
  })

  it('keeps everything for 0 days, and without a root', async () => {
    const root = tempDir()
    await sessionAged(root, 'a', 400)
    expect(await sweep(root, 0, { clock })).toEqual([])
    expect(await sweep(`${root}/none`, 30, { clock })).toEqual([])
    await expect(sweep(root, Number.NaN, { clock })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })

  it('finishes a removal that was interrupted, and goes on behind one that fails', async () => {
    const root = tempDir()
    await sessionAged(root, 'a', 40)
    mkdirSync(`${root}/a/.nexus-tmp-journal-swept`)
    writeFileSync(`${root}/a/.nexus-tmp-journal-swept/events.jsonl`, 'half')
    await sessionAged(root, 'b', 40)
    expect(await sweep(root, 30, { clock, mayRemove: unlessUndecided })).toEqual(['b'])
    expect(await sweep(root, 30, { clock })).toEqual(['a'])
    expect(readdirSync(`${root}/a`)).toEqual(['other'])
  })
})
