import { join } from 'node:path'
import { existsSync } from 'node:fs'
import { NexusError } from '@nexus/errors'
import type { Logger } from '@nexus/host'
import { validateSessionId } from '@nexus/durability/names'
import type { ObjectStore } from '@nexus/objectstore'
import { InspectedSession } from './inspected-session.ts'
import { LocalFiles } from './local-files.ts'
import { Scratch } from './scratch.ts'
import { StoredFiles } from './stored-files.ts'

/** Where sessions are, and where copies of them may go. */
export interface InspectPlaces {
  /** The directory of the sessions, as `core.sessions.root`. */
  readonly sessionsRoot?: string
  /** The caller's: it stays open. */
  readonly store?: ObjectStore
  /** Default: the system's directory for temporary files. */
  readonly scratchDir?: string
  readonly signal?: AbortSignal
  readonly logger?: Logger
}

/** How {@link inspectSession} opens. */
export interface InspectOptions extends InspectPlaces {
  /** What to read. Default: the tree on this disk where there is one, else the store. */
  readonly from?: 'local' | 'store'
  /** The commit to read; only the newest can be had of a session in the mirror layout. */
  readonly generation?: number
}

/**
 * Opens a session for reading: a tree on this disk, or the newest commit of a store. Takes no lock and changes nothing.
 *
 * @throws NexusError `INVALID_ARGUMENT` for what can't be an id, `NOT_FOUND` when it is in none of the places, `UNSUPPORTED`
 *   for a generation that can't be had, `CORRUPT` for a damaged commit, the store's own error
 * @see docs/guides/inspecting-sessions.md
 */
export async function inspectSession(id: string, options: InspectOptions): Promise<InspectedSession> {
  const { sessionsRoot, store, scratchDir, from, generation, ...reading } = options
  validateSessionId(id)
  const scratch = new Scratch(scratchDir)
  try {
    const dir = sessionsRoot === undefined ? undefined : join(sessionsRoot, id)
    if (dir !== undefined && from !== 'store' && generation === undefined && existsSync(dir)) {
      return new InspectedSession(id, new LocalFiles(dir, scratch, reading.signal), scratch)
    }
    const stored =
      store === undefined || from === 'local' ? undefined : await StoredFiles.open(store, id, scratch, reading)
    if (stored === undefined) throw notFound(id, options)
    if (generation !== undefined && generation !== stored.generation)
      throw otherGeneration(id, generation, stored.generation)
    return new InspectedSession(id, stored, scratch)
  } catch (error) {
    await scratch.remove()
    throw error
  }
}

function notFound(id: string, { sessionsRoot, store, from }: InspectOptions): NexusError {
  const places = [
    ...(sessionsRoot === undefined || from === 'store' ? [] : [sessionsRoot]),
    ...(store === undefined || from === 'local' ? [] : [`the store (${store.name})`]),
  ]
  const where = places.length === 0 ? 'no place to look was given' : `there is none in ${places.join(' or in ')}`
  return new NexusError('NOT_FOUND', `session ${id}: ${where}`, { op: 'inspect.open', key: id })
}

function otherGeneration(id: string, wanted: number, newest: number): NexusError {
  const message = `session ${id}: generation ${wanted} can't be read, the store keeps the newest one alone, which is ${newest}`
  return new NexusError('UNSUPPORTED', message, { op: 'inspect.open', key: id })
}
