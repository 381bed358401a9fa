import { expect, it } from 'vitest'
import { formatBytes, progressBar, table } from './output.ts'

it('pads every column but the last', () => {
  expect(
    table([
      ['a', 'bb', 'c'],
      ['aaa', 'b', 'cc'],
    ]),
  ).toEqual(['a    bb  c', 'aaa  b   cc'])
})

it('fills a bar in proportion', () => {
  expect(progressBar(1, 2, 4)).toBe('[##..]')
  expect(progressBar(0, 0, 4)).toBe('[####]')
})

it.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1536, '1.5 KiB'],
  [5 * 2 ** 40, '5120.0 GiB'],
])('writes %d bytes as %s', (sizeBytes, text) => {
  expect(formatBytes(sizeBytes)).toBe(text)
})
