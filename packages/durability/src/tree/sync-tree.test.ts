import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { newDir } from '../../test/memory-store.ts'
import { syncTree } from './sync-tree.ts'

const live = new AbortController().signal

describe('syncing a tree', () => {
  it('gives everything to the disk, links and special files left alone', async () => {
    const dir = newDir()
    mkdirSync(join(dir, 'a', 'b'), { recursive: true })
    for (let i = 0; i < 300; i++) writeFileSync(join(dir, 'a', 'b', `f${i}`), 'x')
    symlinkSync('nowhere', join(dir, 'dangling'))
    symlinkSync('..', join(dir, 'a', 'loop'))
    execFileSync('mkfifo', [join(dir, 'fifo')])
    expect(await syncTree(dir, live)).toBe(true)
  })

  it('is not complete when it was stopped, or there is nothing to read', async () => {
    const dir = newDir()
    writeFileSync(join(dir, 'a'), 'x')
    expect(await syncTree(dir, AbortSignal.abort())).toBe(false)
    expect(await syncTree(join(dir, 'missing'), live)).toBe(false)
  })
})
