import { mkdirSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { atomicWriteFile } from '@nexus/host'
import { namesIn, removeStagingDir } from '../tree/staging.ts'
import { isSessionId } from '../tree/session-id.ts'

/** What was known of a tree when it was set aside. */
export interface SetAsideNote {
  setAsideAtMs: number
  /** It holds turns that the store never got. */
  forked: boolean
}

/** A tree that was set aside, as it lies beside the sessions. */
export interface SetAsideTree {
  path: string
  sessionId: string
  /** Undefined when nothing is known of it. */
  note: SetAsideNote | undefined
}

const NAME = /^\.stale-(.+)-\d{8}T\d{6}Z(?:-\d+)?$/

/** Among the machine's records, under the name that the tree gets: it neither crosses the seam nor changes the tree. */
function notePath(keptAt: string): string {
  return join(dirname(keptAt), '.machine', `${basename(keptAt)}.json`)
}

/** Writes down what is set aside at `keptAt`. On the disk when the promise resolves. */
export async function noteSetAside(keptAt: string, note: SetAsideNote): Promise<void> {
  const wire = { set_aside_at: new Date(note.setAsideAtMs).toISOString(), forked: note.forked }
  mkdirSync(dirname(notePath(keptAt)), { recursive: true, mode: 0o700 })
  await atomicWriteFile(notePath(keptAt), `${JSON.stringify(wire)}\n`, { mode: 0o600 })
}

/** The trees that were set aside under `sessionsRoot`, newest first. */
export function setAsideTrees(sessionsRoot: string): SetAsideTree[] {
  const trees: SetAsideTree[] = []
  for (const name of namesIn(sessionsRoot, 'retention.sweep')) {
    const sessionId = NAME.exec(name)?.[1]
    if (!isSessionId(sessionId)) continue
    const path = join(sessionsRoot, name)
    trees.push({ path, sessionId, note: readNote(path) })
  }
  return trees.toSorted((a, b) => (b.note?.setAsideAtMs ?? 0) - (a.note?.setAsideAtMs ?? 0))
}

/** Removes a tree that was set aside, its note last: what is left of it after a kill is removed by the next sweep. */
export async function removeSetAside(path: string): Promise<void> {
  await removeStagingDir(path)
  await rm(notePath(path), { force: true })
}

function readNote(path: string): SetAsideNote | undefined {
  try {
    const wire = JSON.parse(readFileSync(notePath(path), 'utf8')) as Record<string, unknown>
    const setAsideAtMs = Date.parse(String(wire['set_aside_at']))
    const forked = wire['forked']
    return Number.isNaN(setAsideAtMs) || typeof forked !== 'boolean' ? undefined : { setAsideAtMs, forked }
  } catch {
    return undefined
  }
}
