import type { JournalEnvelope } from '@nexus/journal'
import type { ReplayDifference, ReplayedEvent, ReplayReport } from './replay-report.ts'

/** Compares two streams of turns, event by event: type, and payload as it is written. */
export async function compareTurns(
  expected: AsyncIterator<JournalEnvelope[]>,
  found: AsyncIterator<JournalEnvelope[]>,
): Promise<ReplayReport> {
  let events = 0
  for (let turn = 1; ; turn++) {
    const [left, right] = [await expected.next(), await found.next()]
    if (left.done === true && right.done === true) return { turns: turn - 1, events }
    const [before, again] = [left.done === true ? [] : left.value, right.done === true ? [] : right.value]
    const same = countSame(before, again)
    events += same
    if (same === before.length && same === again.length) continue
    const firstDifference: ReplayDifference = {
      turn,
      event: same + 1,
      ...side('expected', before[same]),
      ...side('found', again[same]),
    }
    return { turns: turn - 1, events, firstDifference }
  }
}

function countSame(before: readonly JournalEnvelope[], again: readonly JournalEnvelope[]): number {
  const at = before.findIndex((event, index) => textOf(event) !== textOf(again[index]))
  return at === -1 ? before.length : at
}

function textOf(event: JournalEnvelope | undefined): string | undefined {
  return event && JSON.stringify([event.type, event.payload])
}

function side<K extends 'expected' | 'found'>(
  key: K,
  event: JournalEnvelope | undefined,
): { [Key in K]?: ReplayedEvent } {
  if (event === undefined) return {}
  return { [key]: { type: event.type, payload: event.payload } } as { [Key in K]?: ReplayedEvent }
}
