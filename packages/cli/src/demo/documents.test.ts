import { describe, expect, it } from 'vitest'
import { passagesOf, pdfPageCount, pngSize, readDocument, samplesOf } from './documents.ts'

describe('the shipped documents', () => {
  it('are what their names say', () => {
    expect(passagesOf(readDocument('durable-writes.md').bytes.toString()).length).toBeGreaterThan(4)
    expect(pdfPageCount(readDocument('turn-boundaries.pdf').bytes)).toBe(1)
    expect(pngSize(readDocument('disk-latency.png').bytes)).toEqual({ width: 720, height: 420 })
  })

  it('hold some thousand samples, all of them numbers', () => {
    const samples = samplesOf(readDocument('disk-latency.csv').bytes.toString())
    expect(samples).toHaveLength(5000)
    expect(
      samples.every(({ sample, sizeBytes, microseconds }) => sample > 0 && sizeBytes > 0 && microseconds > 0),
    ).toBe(true)
  })
})
