import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { copyTree, walkFiles } from './raw-tree.ts'

describe('a raw tree', () => {
  let dir: string

  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'nexus-raw-tree-'))
    mkdirSync(join(dir, 'from/a/b'), { recursive: true })
    writeFileSync(join(dir, 'from/a/b/deep'), 'deep')
    writeFileSync(join(dir, 'from/top'), 'top')
    symlinkSync('top', join(dir, 'from/link'))
  })

  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  it('lists the regular files of every level', () => {
    expect(walkFiles(join(dir, 'from')).toSorted()).toEqual(['a/b/deep', 'top'])
  })

  it('is copied byte by byte', () => {
    copyTree(join(dir, 'from'), join(dir, 'to'))
    expect(readFileSync(join(dir, 'to/a/b/deep'), 'utf8')).toBe('deep')
    expect(readFileSync(join(dir, 'to/top'), 'utf8')).toBe('top')
  })
})
