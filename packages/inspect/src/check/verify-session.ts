import { createHash } from 'node:crypto'
import { isNexusError } from '@nexus/errors'
import { blobDigest } from '@nexus/durability/names'
import { verify, type JournalVerification } from '@nexus/journal'
import { filesOf, type InspectedSession } from '../read/inspected-session.ts'

/** One thing that is wrong in a session. */
export interface SessionProblem {
  /** Session-relative. */
  readonly path: string
  readonly problem: string
}

/** What {@link verifySession} found. */
export interface SessionVerification {
  readonly ok: boolean
  /** Files whose content could be checked against a digest. */
  readonly filesChecked: number
  readonly databasesChecked: number
  /** Undefined when there is no journal, or it can't be read at all: then there is a problem. */
  readonly journal?: JournalVerification
  readonly problems: readonly SessionProblem[]
}

/**
 * Looks for damage: every committed object against its digest, every blob of a tree on this disk against its name, every
 * database by SQLite's own check, the journal for gaps and torn lines. Changes nothing.
 *
 * @throws NexusError when the session itself can't be read, and the store's own error
 */
export async function verifySession(
  session: InspectedSession,
  options: { signal?: AbortSignal; onFile?: (path: string) => void } = {},
): Promise<SessionVerification> {
  const { signal, onFile } = options
  const problems: SessionProblem[] = []
  const noting = async (path: string, check: () => Promise<string | undefined>): Promise<void> => {
    signal?.throwIfAborted()
    onFile?.(path)
    try {
      const problem = await check()
      if (problem !== undefined) problems.push({ path, problem })
    } catch (error) {
      if (!isDamage(error)) throw error
      problems.push({ path, problem: error.message })
    }
  }
  let filesChecked = 0
  for (const { path, kind } of await session.entries()) {
    if (kind !== 'file') continue
    const isChecked = session.source === 'store' || blobDigest(path) !== undefined
    if (!isChecked) continue
    filesChecked += 1
    await noting(path, () => problemOf(session, path))
  }
  const damaged = new Set(problems.map(({ path }) => path))
  const databases = (await session.databases()).filter((path) => !damaged.has(path))
  for (const path of databases) await noting(path, () => databaseProblem(session, path))
  let journal: JournalVerification | undefined
  await noting('journal', async () => {
    if (damaged.has('journal/header.json')) return undefined
    journal = await verify(await session.journalDir(), signal === undefined ? {} : { signal })
    const { gaps, damage } = journal
    return journal.ok ? undefined : `${gaps.length} gaps, ${damage.length} damaged places`
  })
  return {
    ok: problems.length === 0,
    filesChecked,
    databasesChecked: databases.length,
    ...(journal === undefined ? {} : { journal }),
    problems,
  }
}

async function problemOf(session: InspectedSession, path: string): Promise<string | undefined> {
  if (session.source === 'store') return await filesOf(session).check(path)
  const hash = createHash('sha256')
  for await (const chunk of await session.open(path)) hash.update(chunk as Buffer)
  return hash.digest('hex') === blobDigest(path) ? undefined : 'its bytes are not those that its name says'
}

async function databaseProblem(session: InspectedSession, path: string): Promise<string | undefined> {
  try {
    const database = await session.openDatabase(path)
    const answers = database.pragma('integrity_check') as { integrity_check: string }[]
    const [first] = answers
    return first?.integrity_check === 'ok' ? undefined : `SQLite finds: ${first?.integrity_check ?? 'nothing to check'}`
  } catch (error) {
    if (error instanceof Error && error.name === 'SqliteError') return `SQLite finds: ${error.message}`
    throw error
  }
}

function isDamage(error: unknown): error is Error {
  return ['CORRUPT', 'NOT_FOUND', 'UNSUPPORTED'].some((code) => isNexusError(error, code as 'CORRUPT'))
}
