import type { JournalFs } from '../files/journal-fs.ts'
import type { JournalEnvelope } from '../format/record.ts'
import { JournalReader } from './reader.ts'

/**
 * Receives events in the order of their seqs. A returned promise is not waited for while the journal is live (its
 * rejection is logged), and is waited for by `projectFile`.
 */
export type ProjectionHandler = (envelope: JournalEnvelope) => void | Promise<void>

/**
 * Feeds the events of these types to a projection handler, from the files of a journal instead of a live writer. A
 * promise that the handler returns is waited for; what it throws ends the projection and is rethrown.
 *
 * @returns how many events were handed over
 * @throws what {@link JournalReader} throws
 */
export async function projectFile(
  dir: string,
  types: Iterable<string>,
  handler: ProjectionHandler,
  options: { signal?: AbortSignal | undefined; fs?: JournalFs } = {},
): Promise<number> {
  const wanted = new Set(types)
  const reader = await JournalReader.open(dir, options)
  let handed = 0
  for await (const events of reader.batches()) {
    for (const event of events) {
      if (!wanted.has(event.type)) continue
      const result = handler(event)
      if (result) await result
      handed++
    }
  }
  return handed
}
