import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { JournalReader } from '@nexus/journal'
import { isNexusError, systemCode } from '@nexus/errors'
import type { Logger } from '@nexus/host'

/** How far the journal of a local tree goes. */
export interface LocalJournal {
  /** Seq of the last completed turn; 0 for none, undefined when the journal can't be read. */
  turnEnd: number | undefined
  /** The highest seq; 0 for none, undefined when the journal can't be read. */
  lastSeq: number | undefined
  /** Somebody has taken it back to an earlier point, so that it may end before what was committed. */
  rewound: boolean
}

/** Looks how far the journal of the session at `sessionDir` goes. */
export async function readLocalJournal(sessionDir: string, logger: Logger): Promise<LocalJournal> {
  const dir = join(sessionDir, 'journal')
  const rewound = existsSync(join(dir, 'archive'))
  try {
    const reader = await JournalReader.open(dir)
    return { turnEnd: await reader.lastTurnBoundary(), lastSeq: await reader.lastSeq(), rewound }
  } catch (error) {
    if (systemCode(error) === 'ENOENT' || isNexusError(error, 'NOT_FOUND')) return { turnEnd: 0, lastSeq: 0, rewound }
    logger.warn({ err: error, session_dir: sessionDir }, 'the local journal can not be read')
    return { turnEnd: undefined, lastSeq: undefined, rewound }
  }
}
