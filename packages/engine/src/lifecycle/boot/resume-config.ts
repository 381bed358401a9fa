import { join } from 'node:path'
import { CONFIG_SNAPSHOT_PATH } from '@nexus/durability/names'
import { isNexusError, NexusError } from '@nexus/errors'
import { readPlainFile } from '@nexus/host'
import type { LoadedConfig } from '../../config/load.ts'
import { mergeForResume } from '../../config/merge-for-resume.ts'
import type { Boot, BootRequest } from './boot.ts'
import type { PlacedTree } from './place-tree.ts'

/** What the session runs under; of one that is resumed, what it brings is logged. */
export function configInForce({ loaded, options }: BootRequest, { dir, resumed }: PlacedTree): LoadedConfig {
  if (!resumed || !options.useConfigSnapshot) return loaded
  const own = configOfTree(dir, loaded)
  if (own.text !== loaded.text) {
    options.logger.info(
      { path: join(dir, CONFIG_SNAPSHOT_PATH) },
      "the session goes on under its own configuration, which isn't the given one: useConfigSnapshot: false changes that",
    )
  }
  for (const warning of own.warnings) options.logger.warn({}, warning)
  return own
}

/**
 * What a resumed session runs under: the given configuration, and of the snapshot in its tree what is the session's.
 *
 * @throws NexusError `INVALID_ARGUMENT` when the stored snapshot no longer loads; the message names the way out
 * @see docs/concepts/session.md
 */
function configOfTree(sessionDir: string, given: LoadedConfig): LoadedConfig {
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

/** A plugin that fails under what the session was begun with may be fine under what the program gave: says which it was. */
export function underOwnConfig<T>({ request, session }: Boot, work: () => T): T {
  const explain = (error: unknown): never => {
    throw session.loaded === request.loaded ? error : explained(error, join(session.dir, CONFIG_SNAPSHOT_PATH))
  }
  try {
    const result = work()
    return result instanceof Promise ? (result.catch(explain) as T) : result
  } catch (error) {
    return explain(error)
  }
}

function explained(error: unknown, path: string): unknown {
  if (!isNexusError(error)) return error
  const { code, op, key, retryable } = error
  const message = `${error.message}\nThe session runs under its own configuration, ${path}; useConfigSnapshot: false runs it under the given one.`
  const about = { ...(op === undefined ? {} : { op }), ...(key === undefined ? {} : { key }) }
  return new NexusError(code, message, { ...about, retryable, cause: error })
}
