import { describe, expect, it } from 'vitest'
import { event, openWriter } from '../../test/support/events.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import { projectFile } from './project-file.ts'
import type { JournalEnvelope } from '../format/record.ts'

describe('projectFile', () => {
  it('feeds a handler what a live projection was fed', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { rotateBytes: 500 })
    const live: JournalEnvelope[] = []
    const filed: JournalEnvelope[] = []
    writer.subscribeProjection(['thinking.step', 'plan.progress'], (envelope) => void live.push(envelope))
    for (let i = 0; i < 30; i++) {
      writer.append(event(i % 3 ? 'thinking.step' : 'other', { i, bytes: Buffer.from([i]) }))
      if (i % 10 === 9) await writer.turnEnded()
    }
    await writer.close()
    expect(await projectFile(dir, ['thinking.step', 'plan.progress'], (envelope) => void filed.push(envelope))).toBe(20)
    expect(filed).toEqual(live)
  })

  it('waits for a handler that is asynchronous, and stops where it fails', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir)
    for (let i = 0; i < 5; i++) writer.append(event('a'))
    await writer.close()
    const seen: string[] = []
    const projecting = projectFile(dir, ['a'], async ({ seq }) => {
      seen.push(`begin ${seq}`)
      await new Promise(setImmediate)
      if (seq === 3) throw new Error('third')
      seen.push(`end ${seq}`)
    })
    await expect(projecting).rejects.toThrow('third')
    expect(seen).toEqual(['begin 1', 'end 1', 'begin 2', 'end 2', 'begin 3'])
  })
})
