import { closeSync, openSync, writeFileSync } from 'node:fs'
import { compress, Compressor } from 'zstd-napi'
import { describe, expect, it } from 'vitest'
import { tempDir } from '../../test/support/temp-dir.ts'
import { SegmentDamagedError } from '../format/damage.ts'
import { nodeFs } from '../files/journal-fs.ts'
import { encodeFooter } from './segment-footer.ts'
import { ZstdSource } from './zstd-source.ts'

interface Expanded {
  text: string
  error: unknown
  reads: number
}

function expand(bytes: Uint8Array, step = 1000): Expanded {
  const path = `${tempDir()}/events-001.jsonl.zst`
  writeFileSync(path, bytes)
  const fd = openSync(path, 'r')
  const source = new ZstdSource(nodeFs, fd, path)
  const buffer = Buffer.alloc(step)
  const result: Expanded = { text: '', error: undefined, reads: 0 }
  try {
    for (let n = source.read(buffer, 0, step); n > 0; n = source.read(buffer, 0, step)) {
      result.text += buffer.toString('latin1', 0, n)
      result.reads++
    }
  } catch (error) {
    result.error = error
  } finally {
    closeSync(fd)
  }
  return result
}

/** Text that does not compress away, so that it fills several blocks. */
function noise(chars: number): string {
  let state = 1
  let text = ''
  while (text.length < chars) {
    state = (state * 48271) % 0x7fffffff
    text += state.toString(36)
  }
  return text.slice(0, chars)
}

/** Where the blocks of the first frame begin. */
function blockOffsets(frame: Buffer): number[] {
  const descriptor = frame[4] ?? 0
  const single = (descriptor & 0x20) !== 0
  const contentSize = [single ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0
  const offsets: number[] = []
  for (let at = 5 + (single ? 0 : 1) + contentSize; ;) {
    offsets.push(at)
    const header = frame.readUIntLE(at, 3)
    at += 3 + (header >> 3)
    if (header & 1) return offsets
  }
}

describe('ZstdSource', () => {
  it('joins frames and passes over a footer', () => {
    const footer = encodeFooter({ firstSeq: 1, lastSeq: 2, expandedBytes: 6 })
    const bytes = Buffer.concat([compress(Buffer.from('one')), compress(Buffer.from('two')), footer])
    expect(expand(bytes)).toEqual({ text: 'onetwo', error: undefined, reads: 2 })
  })

  it.each([1, 7, 100_000, 1_000_000])('gives the same bytes whatever the size of the reads (%i)', (step) => {
    const text = noise(400_000)
    expect(expand(compress(Buffer.from(text)), step).text).toBe(text)
  })

  it('refuses a file that ends early, after every whole block before that', () => {
    const text = noise(1_000_000)
    const bytes = compress(Buffer.from(text))
    for (const cut of [3, 1000, bytes.length - 100_000]) {
      const { text: got, error } = expand(bytes.subarray(0, bytes.length - cut))
      expect(error).toBeInstanceOf(SegmentDamagedError)
      expect(error).toMatchObject({ code: 'CORRUPT', offset: bytes.length - cut })
      expect(text.startsWith(got)).toBe(true)
      // The expanded size of a block is 128 KiB at most; the cut can't cost more than the blocks it touches.
      expect(got.length).toBeGreaterThanOrEqual(text.length - cut * 2 - 2 * 128 * 1024)
    }
  })

  it.each([1000, 500_000])('gives every block before a broken one, then names the file and the place', (step) => {
    const text = noise(1_000_000)
    const bytes = compress(Buffer.from(text))
    const blocks = blockOffsets(bytes)
    const broken = blocks[5] ?? 0
    bytes[broken] = (bytes[broken] ?? 0) | 0b110
    const { text: got, error } = expand(bytes, step)
    expect(error).toBeInstanceOf(SegmentDamagedError)
    expect(error).toMatchObject({
      path: expect.stringContaining('events-001.jsonl.zst') as unknown,
      offset: broken + 2,
    })
    expect(text.startsWith(got)).toBe(true)
    expect(got.length).toBeGreaterThan(5 * 64 * 1024)
    expect(got).toBe(expand(bytes.subarray(0, broken)).text)
  })

  it('gives the content of a frame whose checksum is wrong, and then an error', () => {
    const compressor = new Compressor()
    compressor.setParameters({ checksumFlag: true })
    const bytes = compressor.compress(Buffer.from('hello'))
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1
    const { text, error } = expand(bytes)
    expect(text).toBe('hello')
    expect(error).toMatchObject({ code: 'CORRUPT' })
  })

  it('refuses junk behind the last frame, after the frame', () => {
    const bytes = Buffer.concat([compress(Buffer.from('one')), Buffer.from('junk and more junk')])
    const { text, error } = expand(bytes)
    expect(text).toBe('one')
    expect(error).toMatchObject({ code: 'CORRUPT', offset: bytes.length - 18 })
  })

  it.each([
    ['an empty file', Buffer.alloc(0)],
    ['a few bytes', Buffer.from([0x28, 0xb5])],
    ['plain text', Buffer.from('{"seq":1,"type":"x"}\n')],
  ])('refuses %s', (_, bytes) => {
    expect(expand(bytes)).toMatchObject({ text: '', error: { code: 'CORRUPT' } })
  })

  it('stops at its ceiling, with flat memory', () => {
    const bomb = compress(Buffer.alloc(64 * 1024 * 1024))
    expect(bomb.length).toBeLessThan(30_000)
    const before = process.memoryUsage.rss()
    const bytes = Buffer.concat(Array.from({ length: 40 }, () => bomb))
    const path = `${tempDir()}/events-001.jsonl.zst`
    writeFileSync(path, bytes)
    const fd = openSync(path, 'r')
    const source = new ZstdSource(nodeFs, fd, path)
    const buffer = Buffer.alloc(256 * 1024)
    let expanded = 0
    expect(() => {
      for (let n = source.read(buffer, 0, buffer.length); n > 0; n = source.read(buffer, 0, buffer.length))
        expanded += n
    }).toThrow(/expands to more than 134217728 bytes/)
    closeSync(fd)
    expect(expanded).toBeLessThanOrEqual(256 * 1024 * 1024)
    expect(process.memoryUsage.rss() - before).toBeLessThan(100 * 1024 * 1024)
  })

  it('stops at what the footer says, so that a short segment can not be made a long one', () => {
    const honest = Buffer.from('one line\n'.repeat(1000))
    const footer = encodeFooter({ firstSeq: 1, lastSeq: 2, expandedBytes: honest.length })
    expect(expand(Buffer.concat([compress(honest), footer]))).toMatchObject({
      text: honest.toString(),
      error: undefined,
    })
    const { text, error } = expand(Buffer.concat([compress(honest), compress(Buffer.alloc(50_000_000)), footer]))
    expect(text.length).toBeLessThanOrEqual(honest.length)
    expect(error).toMatchObject({
      code: 'CORRUPT',
      message: expect.stringContaining(`more than ${honest.length}`) as unknown,
    })
  })
})
