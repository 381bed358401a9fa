import process from 'node:process'
import { describe, expect, it } from 'vitest'
import { PAGE_STEPS } from '../../src/pages/pinned/page-steps.ts'
import { captureUnder, smallCase } from './injected-steps.ts'
import { INTRUSIONS } from './intrusions.ts'

// One pair in so many is tried: 1 for each of them, which takes minutes.
const STRIDE = Number(process.env['NEXUS_PAGES_STRIDE'] ?? 7)

describe.each(PAGE_STEPS)('two things that others do, the first at %s', (firstStep) => {
  it('leave each image what SQLite serializes', async () => {
    const { test, others } = smallCase()
    let pair = PAGE_STEPS.indexOf(firstStep)
    let reached = 0
    for (const first of INTRUSIONS) {
      for (const secondStep of PAGE_STEPS) {
        for (const second of INTRUSIONS) {
          if (++pair % STRIDE !== 0) continue
          if (pair % 5 === 0) others.end()
          if (pair % 11 === 0) await test.restart()
          reached += await captureUnder({ test, others }, [
            { step: firstStep, intrusion: first },
            { step: secondStep, intrusion: second },
          ])
        }
      }
    }
    expect(reached).toBeGreaterThan(0)
  })
})
