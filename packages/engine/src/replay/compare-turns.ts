import type { JournalEnvelope } from '@nexus/journal'
import type { ReplayDifference, ReplayedEvent, ReplayReport } from './replay-report.ts'
import type { JournaledTurn } from './turn-events.ts'

/** Compares two streams of turns, event by event: type, payload as it is written, and whether a gate refused. */
export async function compareTurns(
  expected: AsyncIterator<JournaledTurn>,
  found: AsyncIterator<JournaledTurn>,
): Promise<ReplayReport> {
  let events = 0
  let turns = 0
  for (;;) {
    const [left, right] = [turnOf(await expected.next()), turnOf(await found.next())]
    if (left === undefined && right === undefined) return { turns, events }
    const before = left?.events ?? []
    const again = withoutTail(right, left)
    const at = differenceOf(before, again)
    if (at === undefined) {
      events += before.length
      if (left?.kind === 'turn') turns++
      continue
    }
    const difference: ReplayDifference = {
      turn: turns + 1,
      event: at + 1,
      ...side('expected', before[at]),
      ...side('found', again[at]),
    }
    return { turns, events: events + at, firstDifference: difference }
  }
}

/** Where two lists of events differ first, from 0; undefined where they don't. */
function differenceOf(before: readonly JournalEnvelope[], again: readonly JournalEnvelope[]): number | undefined {
  const length = Math.max(before.length, again.length)
  for (let at = 0; at < length; at++) if (!sameEvent(before[at], again[at])) return at
  return undefined
}

/** Whether two events say the same. */
export function sameEvent(one: JournalEnvelope | undefined, other: JournalEnvelope | undefined): boolean {
  return textOf(one) === textOf(other)
}

/** An event as it is reported. */
export function asReplayed({ type, payload, vetoed, veto_reason: reason }: JournalEnvelope): ReplayedEvent {
  return { type, payload, ...(vetoed === true ? { vetoed, ...(reason === undefined ? {} : { reason }) } : {}) }
}

function turnOf(result: IteratorResult<JournaledTurn>): JournaledTurn | undefined {
  return result.done === true ? undefined : result.value
}

/** A run that was killed behind a turn may lack what the replay says after it. */
function withoutTail(again: JournaledTurn | undefined, before: JournaledTurn | undefined): readonly JournalEnvelope[] {
  const events = again?.events ?? []
  return before?.isCut === true ? events.slice(0, before.events.length) : events
}

function textOf(event: JournalEnvelope | undefined): string | undefined {
  return event && JSON.stringify([event.type, event.payload, event.vetoed === true, event.veto_reason])
}

function side<K extends 'expected' | 'found'>(
  key: K,
  event: JournalEnvelope | undefined,
): { [Key in K]?: ReplayedEvent } {
  if (event === undefined) return {}
  return { [key]: asReplayed(event) } as { [Key in K]?: ReplayedEvent }
}
