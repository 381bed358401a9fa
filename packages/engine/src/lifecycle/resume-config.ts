import { join } from 'node:path'
import { CONFIG_SNAPSHOT_PATH } from '@nexus/durability/names'
import { NexusError } from '@nexus/errors'
import { readPlainFile } from '@nexus/host'
import type { LoadedConfig } from '../config/load.ts'
import { mergeForResume } from '../config/merge-for-resume.ts'

/**
 * What a resumed session runs under: the given configuration, and of the snapshot in its tree what is the session's.
 *
 * @throws NexusError `INVALID_ARGUMENT` when the stored snapshot no longer loads; the message names the way out
 * @see docs/concepts/session.md
 */
export function configOfTree(sessionDir: string, given: LoadedConfig): LoadedConfig {
  const path = join(sessionDir, CONFIG_SNAPSHOT_PATH)
  const bytes = readPlainFile(path)
  if (bytes === undefined) return given
  try {
    return mergeForResume(given, bytes, path)
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error)
    throw new NexusError(
      'INVALID_ARGUMENT',
      `the session's own configuration, ${path}, does not load here: ${detail}\nResume with useConfigSnapshot: false to run it under the given configuration.`,
      { op: 'engine.boot', key: path, cause: error },
    )
  }
}
