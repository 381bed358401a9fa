import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readPlainFile } from './plain-file.ts'

let dir: string

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'nexus-plain-places-'))
})

afterEach(() => rmSync(dir, { recursive: true }))

describe('a file of the engine', () => {
  it('is read, or is not there', () => {
    writeFileSync(join(dir, 'a'), 'text')
    expect(readPlainFile(join(dir, 'a'))?.toString()).toBe('text')
    expect(readPlainFile(join(dir, 'b'))).toBeUndefined()
  })

  it('is refused when it is a link or a FIFO, and never waited for', () => {
    symlinkSync('/etc/hostname', join(dir, 'link'))
    execFileSync('mkfifo', [join(dir, 'fifo')])
    for (const name of ['link', 'fifo']) {
      expect(() => readPlainFile(join(dir, name))).toThrow(expect.objectContaining({ code: 'PRECONDITION' }))
    }
  })
})
