import { describe, expect, it } from 'vitest'
import { PAGE_STEPS } from '../../src/pages/pinned/page-steps.ts'
import { captureUnder, READER, smallCase } from './injected-steps.ts'
import { INTRUSIONS } from './intrusions.ts'

describe.each(PAGE_STEPS)('at %s, whatever others do, each image is what SQLite serializes:', (step) => {
  it('of increments', async () => {
    const { test, others } = smallCase()
    let reached = 0
    for (const intrusion of INTRUSIONS) reached += await captureUnder({ test, others }, [{ step, intrusion }])
    expect(reached).toBeGreaterThan(INTRUSIONS.length / 2)
  })

  it('of increments beside a reader that is older than the last of them', async () => {
    const { test, others } = smallCase()
    for (const intrusion of INTRUSIONS) {
      others.end()
      await captureUnder({ test, others }, [READER])
      await captureUnder({ test, others }, [{ step, intrusion }])
    }
  })

  it.each(['commit', 'commit and PASSIVE'] as const)('of full readings after %s', async (before) => {
    const { test, others } = smallCase()
    for (const intrusion of INTRUSIONS) {
      await test.restart()
      await captureUnder({ test, others }, [{ step, intrusion }], before)
    }
  })
})
