import type { ObjectStore } from '@nexus/objectstore'
import type { PublishedEvalRun, PublishEvalRunOptions } from '@nexus/durability'

export type { PublishedEvalRun, PublishEvalRunOptions }

/**
 * Uploads the files of a finished evaluation run to `eval/<run-id>/`, `_sessions/` left out. Symbolic links are not
 * followed. A failure is logged as a warning and returned: the run itself has succeeded.
 *
 * @param runId as a session id
 * @throws `INVALID_ARGUMENT` for a bad id, and the signal's reason
 * @see docs/formats/object-store.md
 */
export async function publishEvalRun(
  store: ObjectStore,
  dir: string,
  runId: string,
  options: PublishEvalRunOptions = {},
): Promise<PublishedEvalRun> {
  const { publishFiles } = await import('@nexus/durability')
  return await publishFiles(store, dir, runId, options)
}
