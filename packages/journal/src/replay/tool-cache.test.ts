import { existsSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { tempDir } from '../../test/support/temp-dir.ts'
import { canonicalJson, ToolCache } from './tool-cache.ts'

describe('ToolCache', () => {
  it('finds a result by name and arguments, in the documented place', () => {
    const dir = tempDir()
    const cache = new ToolCache(dir)
    cache.put('read_file', { path: 'a', lines: [1, 2] }, { output: Buffer.from('x'), n: 1 })
    const digest = createHash('sha256').update('{"lines":[1,2],"path":"a"}').digest('hex')
    expect(existsSync(`${dir}/cache/read_file/${digest}.json`)).toBe(true)
    const other = new ToolCache(dir)
    expect(other.get('read_file', { lines: [1, 2], path: 'a' })).toEqual({ output: Buffer.from('x'), n: 1 })
    expect(other.get('read_file', { lines: [2, 1], path: 'a' })).toBeUndefined()
    expect(other.get('write_file', { lines: [1, 2], path: 'a' })).toBeUndefined()
    expect(readdirSync(`${dir}/cache`)).toEqual(['read_file'])
  })

  it.each(['../../x', 'a/b', '.', '..', 'x'.repeat(300), 'é', 'a\0b', 'con.json', '__proto__'])(
    'keeps results of a tool named %j inside its directory',
    (tool) => {
      const dir = tempDir()
      const cache = new ToolCache(dir)
      cache.put(tool, { a: 1 }, 'result')
      expect(cache.get(tool, { a: 1 })).toBe('result')
      expect(readdirSync(dir)).toEqual(['cache'])
      expect(readdirSync(`${dir}/cache`)).toEqual([expect.stringMatching(/^_[0-9a-f]{32}$/)])
    },
  )

  it('keeps nothing that cannot be serialised', () => {
    const dir = tempDir()
    const cache = new ToolCache(dir)
    cache.put('t', { n: 1n }, 'result')
    cache.put('t', { a: 1 }, 1n)
    expect(cache.get('t', { n: 1n })).toBeUndefined()
    expect(cache.get('t', { a: 1 })).toBeUndefined()
  })

  it('takes a damaged entry for none, and so one that another tool left on a disk that folds case', () => {
    const dir = tempDir()
    const cache = new ToolCache(dir)
    cache.put('t', { a: 1 }, 'result')
    const path = `${dir}/cache/t/${readdirSync(`${dir}/cache/t`)[0]}`
    for (const text of ['', '{"tool":"t"', 'null', '{"tool":"T","result":1}']) {
      writeFileSync(path, text)
      expect(cache.get('t', { a: 1 })).toBeUndefined()
    }
  })

  it('neither writes nor reads through a link, at any of its places', () => {
    for (const place of ['journal', 'journal/cache', 'journal/cache/t']) {
      const [root, outside] = [tempDir(), tempDir()]
      const cache = new ToolCache(`${root}/journal`)
      cache.put('t', { a: 1 }, 'result')
      expect(cache.get('t', { a: 1 })).toBe('result')
      renameSync(`${root}/${place}`, `${outside}/moved`)
      symlinkSync(`${outside}/moved`, `${root}/${place}`)
      const before = readdirSync(outside, { recursive: true })
      expect(cache.get('t', { a: 1 })).toBeUndefined()
      expect(() => cache.put('t', { a: 2 }, 'other')).toThrow(/ELOOP|ENOTDIR/)
      expect(readdirSync(outside, { recursive: true })).toEqual(before)
    }
  })

  it('refuses an empty name', () => {
    expect(() => new ToolCache(tempDir()).put('', {}, 1)).toThrow(/name/)
  })
})

describe('canonicalJson', () => {
  it('is the same for equal values whatever the order of their keys', () => {
    expect(canonicalJson({ b: [{ y: 1, x: 2 }], a: null })).toBe('{"a":null,"b":[{"x":2,"y":1}]}')
    expect(canonicalJson(undefined)).toBe('null')
    expect(canonicalJson(JSON.parse('{"__proto__":1,"a":2}'))).toBe('{"__proto__":1,"a":2}')
  })
})
