import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { event, openWriter } from '../../test/support/events.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import { rebuildActiveSegment } from './rebuild-active-segment.ts'

async function sealed(): Promise<{ dir: string; before: Buffer; sealedPath: string }> {
  const dir = tempDir()
  const writer = await openWriter(dir, { rotateBytes: 1 })
  for (let i = 0; i < 300; i++) writer.append(event('a', { text: `é${i}`, bytes: Buffer.from([i % 256]) }))
  await writer.barrier()
  const before = readFileSync(`${dir}/events.jsonl`)
  for (let i = 0; i < 50; i++) writer.append(event('later'))
  await writer.turnEnded()
  await writer.close()
  return { dir, before, sealedPath: `${dir}/events-001.jsonl.zst` }
}

describe('rebuildActiveSegment', () => {
  it('gives the same bytes that the active segment had', async () => {
    const { dir, before, sealedPath } = await sealed()
    const destPath = `${dir}/events.jsonl`
    expect(await rebuildActiveSegment({ sealedPath, lastSeq: 300, destPath })).toEqual({
      events: 300,
      lastSeq: 300,
      sizeBytes: before.length,
    })
    expect(readFileSync(destPath).equals(before)).toBe(true)
    expect(readdirSync(dir).toSorted()).toEqual(['events-001.jsonl.zst', 'events.jsonl', 'header.json'])
  })

  it('says how far it came when the sealed segment ends earlier', async () => {
    const { dir, sealedPath } = await sealed()
    expect(await rebuildActiveSegment({ sealedPath, lastSeq: 1000, destPath: `${dir}/x` })).toMatchObject({
      lastSeq: 350,
    })
    expect(await rebuildActiveSegment({ sealedPath, lastSeq: 0, destPath: `${dir}/y` })).toEqual({
      events: 0,
      lastSeq: 0,
      sizeBytes: 0,
    })
  })

  it('leaves the destination alone when the segment is damaged or missing', async () => {
    const { dir, sealedPath } = await sealed()
    const bytes = readFileSync(sealedPath)
    writeFileSync(sealedPath, bytes.subarray(0, bytes.length / 2))
    writeFileSync(`${dir}/dest`, 'old')
    const rebuilding = rebuildActiveSegment({ sealedPath, lastSeq: 300, destPath: `${dir}/dest` })
    await expect(rebuilding).rejects.toMatchObject({ code: 'CORRUPT' })
    const missing = rebuildActiveSegment({ sealedPath: `${dir}/none`, lastSeq: 1, destPath: `${dir}/dest` })
    await expect(missing).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(readFileSync(`${dir}/dest`, 'utf8')).toBe('old')
    expect(existsSync(`${dir}/.nexus-tmp-journal-rebuild`)).toBe(false)
  })
})
