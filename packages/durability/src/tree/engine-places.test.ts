import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { refuseReplacedDirectories } from './engine-places.ts'

let dir: string

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'nexus-plain-places-'))
})

afterEach(() => rmSync(dir, { recursive: true }))

describe('the places of the engine in a tree', () => {
  it.each(['journal', 'metadata', 'plugins', 'blobs', 'context', 'plugins/agent'])('refuse a link at %s', (name) => {
    mkdirSync(join(dir, 'elsewhere'))
    if (name.includes('/')) mkdirSync(join(dir, 'plugins'))
    symlinkSync(join(dir, 'elsewhere'), join(dir, name))
    expect(() => refuseReplacedDirectories(dir)).toThrow(
      expect.objectContaining({ code: 'PRECONDITION', key: join(dir, name) }),
    )
  })

  it('refuse a file in the place of a directory', () => {
    writeFileSync(join(dir, 'journal'), '')
    expect(() => refuseReplacedDirectories(dir)).toThrow(expect.objectContaining({ code: 'PRECONDITION' }))
  })

  it('may be missing, and hold whatever plugins put there', () => {
    mkdirSync(join(dir, 'plugins/agent'), { recursive: true })
    writeFileSync(join(dir, 'plugins/notes.txt'), '')
    refuseReplacedDirectories(dir)
  })
})
