import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { tempDir } from '@nexus/host/testing'
import { createSessionTree } from './create-tree.ts'
import { adoptSessionLock, readLockState, writeLockFile } from '@nexus/host'

const mode = (path: string): number => statSync(path).mode & 0o777

describe('createSessionTree', () => {
  it('makes an empty valid session, readable by its owner alone', async () => {
    const root = join(tempDir(), 'new/sessions')
    const clock = { now: () => Date.UTC(2026, 10, 29, 16, 34, 12) }
    const profile = { profile: 'demo', plugins: ['p'], labels: { team: 'a' } }
    const dir = await createSessionTree(root, 's1', { profile, clock })
    expect(dir).toBe(join(root, 's1'))
    expect(readdirSync(root)).toEqual(['s1'])
    expect(readdirSync(dir).toSorted()).toEqual(['context', 'files', 'journal', 'metadata', 'plugins'])
    const umask = process.umask()
    for (const path of [root, dir, join(dir, 'files'), join(dir, 'metadata')]) expect(mode(path)).toBe(0o700 & ~umask)
    expect(mode(join(dir, 'metadata/session.json'))).toBe(0o600 & ~umask)
    expect(JSON.parse(readFileSync(join(dir, 'metadata/session.json'), 'utf8'))).toEqual({
      id: 's1',
      started_at: '2026-11-29T16:34:12.000Z',
      profile: 'demo',
      plugins: ['p'],
      labels: { team: 'a' },
      turn_count: 0,
      tokens_used: 0,
      prompt_tokens_used: 0,
      completion_tokens_used: 0,
      cost_usd: 0,
      status: 'active',
    })
  })

  it('appears with a lock in it when asked to', async () => {
    const root = tempDir()
    const dir = await createSessionTree(root, 's1', {
      prepareStaging: (staging) => writeLockFile(staging, { transport: 'test' }),
    })
    expect(readLockState(dir)).toBe('live')
    const lock = await adoptSessionLock(dir)
    lock.release()
    expect(readLockState(dir)).toBe('free')
  })

  it('refuses a session that exists and leaves it as it is', async () => {
    const root = tempDir()
    const dir = await createSessionTree(root, 's1')
    writeFileSync(join(dir, 'files/a'), 'x')
    await expect(createSessionTree(root, 's1')).rejects.toMatchObject({ code: 'PRECONDITION', key: 's1' })
    expect(readdirSync(root)).toEqual(['s1'])
    expect(readdirSync(join(dir, 'files'))).toEqual(['a'])
    writeFileSync(join(root, 's2'), 'a file')
    await expect(createSessionTree(root, 's2')).rejects.toMatchObject({ code: 'PRECONDITION' })
  })

  it('lets one of several processes that create the same session win', async () => {
    const root = tempDir()
    const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => createSessionTree(root, 's1')))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(readdirSync(root)).toEqual(['s1'])
  })

  it('fills an empty directory that somebody made', async () => {
    const root = tempDir()
    mkdirSync(join(root, 's1'))
    await createSessionTree(root, 's1')
    expect(readdirSync(join(root, 's1'))).toContain('metadata')
  })

  it.each(['../x', 'a/b', '.', '', 'CON', 'x\0y', '__proto__', 'a'.repeat(300)])(
    'refuses the id %j before it touches anything',
    async (id) => {
      const root = join(tempDir(), 'sessions')
      await expect(createSessionTree(root, id)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
      expect(() => readdirSync(root)).toThrow('ENOENT')
    },
  )

  it('leaves nothing behind when it fails half way', async () => {
    const root = tempDir()
    const failed = createSessionTree(root, 's1', { prepareStaging: () => Promise.reject(new Error('no lock')) })
    await expect(failed).rejects.toThrow('no lock')
    expect(readdirSync(root)).toEqual([])
    if (process.getuid?.() === 0) return
    chmodSync(root, 0o500)
    await expect(createSessionTree(root, 's1')).rejects.toMatchObject({ code: 'PERMISSION' })
  })
})
