import { spawnSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

let root: string

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nexus-blob-memory-'))
})

afterEach(() => {
  rmSync(root, { recursive: true, force: true })
})

describe('a large input', () => {
  it('is put, verified and streamed in flat memory', () => {
    const path = join(root, 'large')
    const fd = openSync(path, 'w')
    const piece = Buffer.alloc(1024 * 1024, 7)
    for (let index = 0; index < 256; index++) writeSync(fd, piece.fill(index % 251))
    closeSync(fd)
    const child = fileURLToPath(new URL('flat-memory-child.ts', import.meta.url))
    const { stdout, stderr } = spawnSync(process.execPath, [...process.execArgv, child, root, path], {
      encoding: 'utf8',
    })
    expect(stderr).toBe('')
    expect(Number(stdout)).toBeLessThan(64)
  })
})
