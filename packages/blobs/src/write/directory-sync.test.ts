import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { describe, expect, it } from 'vitest'
import { DirectorySync } from './directory-sync.ts'
import type { BlobFileSystem } from '../file-system.ts'

/** A disk whose fsyncs end only when told to. */
function heldDisk(): { fs: BlobFileSystem; running: ((error: Error | null) => void)[] } {
  const running: ((error: Error | null) => void)[] = []
  const fsync = (_fd: number, done: (error: Error | null) => void): void => void running.push(done)
  return { fs: { ...fs, fsync } as unknown as BlobFileSystem, running }
}

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('DirectorySync', () => {
  it('does not count a running fsync for a rename that came after it began', async () => {
    const disk = heldDisk()
    const directories = new DirectorySync(disk.fs)
    const settled: string[] = []
    void directories.sync(tmpdir()).then(() => settled.push('first'))
    void directories.sync(tmpdir()).then(() => settled.push('second'))
    void directories.sync(tmpdir()).then(() => settled.push('third'))
    expect(disk.running).toHaveLength(1)
    disk.running.shift()?.(null)
    await tick()
    expect(settled).toEqual(['first'])
    expect(disk.running).toHaveLength(1)
    disk.running.shift()?.(null)
    await tick()
    expect(settled).toEqual(['first', 'second', 'third'])
    expect(disk.running).toHaveLength(0)
  })

  it('tells a failure to those who waited for it, and not to those who came later', async () => {
    const disk = heldDisk()
    const directories = new DirectorySync(disk.fs)
    const first = directories.sync(tmpdir())
    const second = directories.sync(tmpdir())
    disk.running.shift()?.(new Error('EIO'))
    await expect(first).rejects.toThrow('EIO')
    await tick()
    disk.running.shift()?.(null)
    await second
    const third = directories.sync(tmpdir())
    disk.running.shift()?.(null)
    await third
  })

  it('rejects for a directory that is gone', async () => {
    await expect(new DirectorySync(fs).sync('/nowhere/at/all')).rejects.toMatchObject({ code: 'ENOENT' })
  })
})
