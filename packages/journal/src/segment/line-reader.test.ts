import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_LINE_BYTES } from '../format/format.ts'
import { LineReader, type BrokenLine } from './line-reader.ts'
import type { ByteSource } from './byte-source.ts'

/** Gives `bytes` in pieces of the sizes in `steps`, again and again. */
function sourceOf(bytes: Buffer, steps: readonly number[], failure?: Error): ByteSource {
  let position = 0
  let call = 0
  return {
    read(buffer, offset, length) {
      if (position === bytes.length && failure) throw failure
      const n = Math.min(length, steps[call++ % steps.length] ?? length, bytes.length - position)
      bytes.copy(buffer, offset, position, position + n)
      position += n
      return n
    },
  }
}

function readLines(source: ByteSource): { lines: { offset: number; line: string }[]; broken: BrokenLine[] } {
  const broken: BrokenLine[] = []
  const lines: { offset: number; line: string }[] = []
  const reader = new LineReader(source, (each) => broken.push(each))
  for (let batch = reader.next(); batch; batch = reader.next()) {
    let offset = batch.offset
    for (const line of batch.lines) {
      lines.push({ offset, line })
      offset += Buffer.byteLength(line) + 1
    }
  }
  return { lines, broken }
}

describe('LineReader', () => {
  it('gives every line with its position, however the bytes arrive', () => {
    const line = fc.string({ unit: 'grapheme', maxLength: 30 }).map((text) => text.replaceAll('\n', ' '))
    fc.assert(
      fc.property(
        fc.array(line, { maxLength: 30 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
        (wanted, steps) => {
          const bytes = Buffer.from(wanted.map((each) => `${each}\n`).join(''))
          const { lines, broken } = readLines(sourceOf(bytes, steps))
          expect(lines.map((each) => each.line)).toEqual(wanted)
          for (const { offset, line: text } of lines) {
            expect(bytes.subarray(offset, offset + Buffer.byteLength(text)).toString()).toBe(text)
          }
          expect(broken).toEqual([])
        },
      ),
    )
  })

  it('gives an unterminated end apart from the lines', () => {
    const { lines, broken } = readLines(sourceOf(Buffer.from('a\nb\nhalf'), [3]))
    expect(lines.map(({ line }) => line)).toEqual(['a', 'b'])
    expect(broken).toEqual([{ kind: 'unterminated', offset: 4, sizeBytes: 4, text: 'half' }])
  })

  it('takes the longest line, and skips a longer one with its position and size', () => {
    const longest = 'x'.repeat(MAX_LINE_BYTES - 1)
    const tooLong = 'y'.repeat(MAX_LINE_BYTES)
    const bytes = Buffer.from(`a\n${longest}\n${tooLong}\nb\n${tooLong}${tooLong}`)
    const { lines, broken } = readLines(sourceOf(bytes, [200_000]))
    expect(lines.map(({ line }) => line.length)).toEqual([1, MAX_LINE_BYTES - 1, 1])
    expect(lines.at(-1)?.line).toBe('b')
    expect(broken).toEqual([
      { kind: 'oversized', offset: 2 + MAX_LINE_BYTES, sizeBytes: MAX_LINE_BYTES + 1 },
      { kind: 'oversized', offset: 2 + 2 * MAX_LINE_BYTES + 3, sizeBytes: 2 * MAX_LINE_BYTES },
    ])
  })

  it('gives every whole line before the source fails, then the failure', () => {
    const failure = new Error('damaged')
    const reader = new LineReader(sourceOf(Buffer.from('a\nb\nhalf'), [100], failure), () => undefined)
    expect(reader.next()?.lines).toEqual(['a', 'b'])
    expect(() => reader.next()).toThrow(failure)
  })
})
