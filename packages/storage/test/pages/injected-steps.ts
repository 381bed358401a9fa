import type { PageStep } from '../../src/pages/pinned/page-steps.ts'
import { CaptureCase } from './capture-case.ts'
import { Others, type Intrusion } from './intrusions.ts'

/** At which step others do something, the first time that a capture comes there. */
export interface Injection {
  readonly step: PageStep
  readonly intrusion: Intrusion
}

/** A reader that began before the WAL was in the file keeps the next writer from beginning it anew. */
export const READER: Injection = { step: 'pages:before-checkpoint', intrusion: 'old reader' }

/** A database of some pages, so that it is captured by the hundred. */
export function smallCase(): { test: CaptureCase; others: Others } {
  const test = new CaptureCase({ pageSize: 512 })
  for (let rows = 0; rows < 12; rows++) test.db.exec('INSERT INTO rows (body) VALUES (randomblob(700))')
  return { test, others: new Others(test) }
}

/**
 * Captures once after others did something, while others do things between the steps, and compares the image with what SQLite serializes.
 *
 * @returns how many injections were reached
 */
export async function captureUnder(
  { test, others }: ReturnType<typeof smallCase>,
  injections: readonly Injection[],
  before: Intrusion = 'commit',
): Promise<number> {
  const left = new Set(injections)
  test.onStep = (step) => {
    for (const injection of left) {
      if (injection.step !== step) continue
      left.delete(injection)
      others.do(injection.intrusion)
    }
  }
  others.do(before)
  await test.captureAndCompare()
  await test.settled()
  return injections.length - left.size
}
