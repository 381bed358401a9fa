import type { JournalFs } from '../files/journal-fs.ts'
import type { ProjectionHandler } from '../write/projections.ts'
import { JournalReader } from './reader.ts'

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
  options: { signal?: AbortSignal; fs?: JournalFs } = {},
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
