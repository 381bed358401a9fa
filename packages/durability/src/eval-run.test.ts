import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { keepingLogger } from '@nexus/host/testing'
import { newDir, newStore, storedText } from '../test/memory-store.ts'
import { publishEvalRun } from '../../engine/src/publish-eval-run.ts'

function newRun(): string {
  const dir = newDir('eval')
  mkdirSync(join(dir, 'cases', 'deep'), { recursive: true })
  mkdirSync(join(dir, '_sessions', 's1'), { recursive: true })
  writeFileSync(join(dir, 'report.json'), '{}')
  writeFileSync(join(dir, 'cases', 'deep', 'a.txt'), 'a')
  writeFileSync(join(dir, 'cases', 'empty'), '')
  writeFileSync(join(dir, '_sessions', 's1', 'secret'), 'no')
  writeFileSync(join(dir, '.nexus-tmp-0123456789abcdef'), 'half')
  return dir
}

describe('publishEvalRun', () => {
  it('uploads the run below its id, its sessions and our temporary files left out', async () => {
    const { store, backend } = newStore()
    const published = await publishEvalRun(store, newRun(), 'run-1')
    expect(published).toEqual({ ok: true, objects: 3, bytes: 3, skipped: [] })
    expect([...backend.objects.keys()].toSorted()).toEqual([
      'eval/run-1/cases/deep/a.txt',
      'eval/run-1/cases/empty',
      'eval/run-1/report.json',
    ])
    expect(backend.faults.calls.at(-1)?.op).toBe('flush')
  })

  it('follows no link, and names what it left out', async () => {
    const { store, backend } = newStore()
    const dir = newRun()
    symlinkSync('/etc/passwd', join(dir, 'passwd'))
    symlinkSync('..', join(dir, 'loop'))
    writeFileSync(join(dir, 'back\\slash'), 'x')
    const logger = keepingLogger()
    const published = await publishEvalRun(store, dir, 'run-1', { logger })
    expect(published.ok).toBe(true)
    expect(published.skipped.toSorted()).toEqual(['back\\slash', 'loop', 'passwd'])
    expect(storedText(backend, 'eval/run-1/passwd')).toBeUndefined()
    expect(logger.lines.map(({ level }) => level)).toEqual(['warn'])
  })

  it('warns when the store fails, and throws nothing', async () => {
    const { store, backend } = newStore()
    backend.faults.failWhen(({ op }) => op === 'put')
    const logger = keepingLogger()
    const published = await publishEvalRun(store, newRun(), 'run-1', { logger })
    expect(published).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE' } })
    expect(logger.lines.map(({ level }) => level)).toEqual(['warn'])
  })

  it('is not ok before everything is durable', async () => {
    const { store, backend } = newStore()
    backend.faults.failWhen(({ op }) => op === 'flush')
    expect((await publishEvalRun(store, newRun(), 'run-1')).ok).toBe(false)
  })

  it.each(['', '..', 'a/b', '../x', 'x\0y', 'CON'])('refuses the id %j before it touches anything', async (id) => {
    const { store, backend } = newStore()
    await expect(publishEvalRun(store, newRun(), id)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(backend.faults.calls).toEqual([])
  })

  it('stops with the reason of its signal', async () => {
    const { store } = newStore()
    const reason = new Error('enough')
    await expect(publishEvalRun(store, newRun(), 'run-1', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  })
})
