import { JournalReader } from '@nexus/journal'
import type { EventMap } from '../bus/event-map.ts'
import type { SessionMeta } from './meta.ts'
import { COUNTED_TYPES, withCounted } from './meta-events.ts'
import { completeTimings, type TurnTiming } from './timing.ts'
import type { SessionWorkspace } from './workspace.ts'

/**
 * Counts what the journal holds and the metadata don't: a process that is killed between the two leaves an event written and
 * not counted, and a turn without its line of timing. The journal is read from there on only.
 *
 * @param lastSeq the journal's newest position
 * @throws as JournalReader and the workspace do
 */
export async function recount(workspace: SessionWorkspace, journalDir: string, lastSeq: number): Promise<void> {
  const meta = workspace.meta()
  const counted = countedUpTo(meta, lastSeq)
  if (counted >= lastSeq) {
    // A journal that was cut back, or lost its end with the power, gives its positions out once more.
    if (counted !== meta.countedSeq && meta.countedSeq !== undefined) {
      await workspace.saveMeta({ ...meta, countedSeq: lastSeq })
    }
    return
  }
  let after = meta
  const ended: TurnTiming[] = []
  const reader = await JournalReader.open(journalDir, { fromSeq: counted + 1, onSegmentDamage: 'continue' })
  for await (const events of reader.batches()) {
    for (const { type, payload, seq, ts } of events) {
      if (COUNTED_TYPES.has(type)) after = withCounted(after, type, payload, seq)
      if (type === 'agent.turn.end') {
        ended.push({ turn_id: (payload as EventMap['agent.turn.end']).turn_id, ended_at: ts })
      }
    }
  }
  if (after === meta) return
  await completeTimings(workspace, ended)
  await workspace.saveMeta(after)
}

function countedUpTo({ countedSeq, turnCount, tokensUsed, costUsd }: SessionMeta, lastSeq: number): number {
  if (countedSeq !== undefined) return Math.min(countedSeq, lastSeq)
  // Totals of a writer that didn't say what it had counted are taken as they are.
  return turnCount === 0 && tokensUsed === 0 && costUsd === 0 ? 0 : lastSeq
}
