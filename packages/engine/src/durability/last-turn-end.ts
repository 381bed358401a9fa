import { join } from 'node:path'
import { JournalReader } from '@nexus/journal'
import { isNexusError, systemCode } from '@nexus/errors'
import type { Logger } from '../logger.ts'

/** Seq of the last completed turn in a session's journal: 0 when there is none, undefined when it can't be read. */
export async function readLastTurnEnd(sessionDir: string, logger: Logger): Promise<number | undefined> {
  try {
    const reader = await JournalReader.open(join(sessionDir, 'journal'))
    return (await reader.lastTurnBoundary()) ?? 0
  } catch (error) {
    if (systemCode(error) === 'ENOENT' || isNexusError(error, 'NOT_FOUND')) return 0
    logger.warn(
      { err: error, session_dir: sessionDir },
      'the local journal can not be read; taking it for one with turns of its own',
    )
    return undefined
  }
}
