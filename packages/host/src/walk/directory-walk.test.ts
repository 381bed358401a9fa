import {
  existsSync,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { holdDirectory } from './directory-walk.ts'

function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'nexus-walk-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length
}

describe('a walk through directories', () => {
  it('gives the last one, shows each on the way, and holds no other', () => {
    const dir = tempDir()
    mkdirSync(join(dir, 'a/b'), { recursive: true })
    writeFileSync(join(dir, 'a/b/c'), 'found')
    const seen: bigint[] = []
    const before = openDescriptors()
    const held = holdDirectory(dir, ['a', 'b'], { visit: (fd) => seen.push(fstatSync(fd, { bigint: true }).ino) })
    expect(openDescriptors()).toBe(before + 1)
    expect(statSync(held.at('c')).size).toBe(5)
    held.close()
    held.close()
    expect(openDescriptors()).toBe(before)
    expect(seen).toEqual(['', 'a', 'a/b'].map((path) => statSync(join(dir, path), { bigint: true }).ino))
  })

  it('follows links up to its root and none below, at any component, and holds nothing afterwards', () => {
    const dir = tempDir()
    mkdirSync(join(dir, 'real/a/b'), { recursive: true })
    symlinkSync(join(dir, 'real'), join(dir, 'root'))
    symlinkSync(join(dir, 'real/a'), join(dir, 'real/link'))
    symlinkSync(join(dir, 'real/a/b'), join(dir, 'real/a/last'))
    writeFileSync(join(dir, 'real/file'), '')
    holdDirectory(join(dir, 'root'), ['a', 'b']).close()
    const before = openDescriptors()
    for (const names of [['link', 'b'], ['a', 'last'], ['link'], ['file']]) {
      for (const create of [false, true]) {
        expect(() => holdDirectory(join(dir, 'root'), names, { create })).toThrow(/ENOTDIR|ELOOP/)
      }
    }
    expect(() => holdDirectory(join(dir, 'root'), ['none'])).toThrow(/ENOENT/)
    expect(openDescriptors()).toBe(before)
  })

  it('makes what is missing, for its owner alone', () => {
    const dir = tempDir()
    holdDirectory(dir, ['a', 'b'], { create: true }).close()
    expect(['a', 'a/b'].map((path) => statSync(join(dir, path)).mode & 0o777)).toEqual([0o700, 0o700])
  })

  it.runIf(existsSync('/proc/self/fd'))('reaches files in the directory it holds, whatever took its name', () => {
    const dir = tempDir()
    mkdirSync(join(dir, 'a'))
    mkdirSync(join(dir, 'other'))
    const held = holdDirectory(dir, ['a'])
    renameSync(join(dir, 'a'), join(dir, 'moved'))
    symlinkSync(join(dir, 'other'), join(dir, 'a'))
    writeFileSync(held.at('file'), 'x')
    held.close()
    expect(readdirSync(join(dir, 'moved'))).toEqual(['file'])
    expect(readdirSync(join(dir, 'other'))).toEqual([])
  })
})
