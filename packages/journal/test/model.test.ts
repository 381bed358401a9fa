import * as fc from 'fast-check'
import { describe, it } from 'vitest'
import { JournalUnderTest, type Step } from './support/journal-under-test.ts'

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('append' as const),
      count: fc.integer({ min: 1, max: 8 }),
      writeThrough: fc.boolean(),
      size: fc.integer({ min: 0, max: 400 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('turn', 'barrier', 'committed', 'close', 'kill', 'snapshot', 'restore'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('power loss' as const),
      arrived: fc.double({ min: 0, max: 1, noNaN: true }),
      torn: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('rewind' as const), to: fc.double({ min: 0, max: 1, noNaN: true }) }),
  },
)

describe('the journal', () => {
  it('does what a list does, through closing, killing, power losses, rotations, rewinds and restores', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25 }), async (steps) => {
        const subject = new JournalUnderTest()
        for (const each of steps) await subject.apply(each)
        await subject.end()
      }),
      { numRuns: 150 },
    )
  })
})
