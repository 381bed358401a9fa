import { closeSync, constants, lstatSync, openSync, readdirSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { systemCode } from '@nexus/errors'
import type { Manifest } from '../mirror/manifest.ts'

const CONVERSATION_PATH = 'context/conversation.jsonl'
const PLUGIN_DATABASE = /^plugins\/[^/]+\/store\.db$/

/** A file of blank lines that is longer than this was not made by a crash. */
const LOOK_BYTES = 64 * 1024

/** What a session's tree holds of what every commit of it must, before any plugin of this run wrote to it. */
export interface LocalTree {
  /** The conversation holds something. */
  readonly hasConversation: boolean
  /** Session-relative paths of the plugins' databases. */
  readonly databases: ReadonlySet<string>
}

/** Looks at the tree of a session that no plugin runs in. */
export function lookAtTree(sessionDir: string): LocalTree {
  return { hasConversation: holdsConversation(sessionDir), databases: databasesIn(sessionDir) }
}

/**
 * Whether the tree lost what a commit of it has: its conversation, or a plugin's database. What a turn removed is in no
 * later commit; what went otherwise must not be missing from the next one.
 */
export function lacks({ hasConversation, databases }: LocalTree, { entries, objects }: Manifest): boolean {
  if (!hasConversation && (entries[CONVERSATION_PATH]?.size ?? 0) > 0) return true
  return objects.some((path) => PLUGIN_DATABASE.test(path) && !databases.has(path))
}

/** A file that a crash of the host's file system emptied, while it was being replaced, may be left with blank lines. */
function holdsConversation(sessionDir: string): boolean {
  let fd: number
  try {
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
    fd = openSync(join(sessionDir, CONVERSATION_PATH), flags)
  } catch (error) {
    // One that is there and can't be read is for the boot to complain about.
    return systemCode(error) !== 'ENOENT'
  }
  try {
    const bytes = Buffer.alloc(LOOK_BYTES)
    const length = readSync(fd, bytes, 0, LOOK_BYTES, 0)
    return length === LOOK_BYTES || bytes.subarray(0, length).toString('latin1').trim() !== ''
  } catch {
    return true
  } finally {
    closeSync(fd)
  }
}

function databasesIn(sessionDir: string): Set<string> {
  const found = new Set<string>()
  let names: string[]
  try {
    names = readdirSync(join(sessionDir, 'plugins'))
  } catch {
    return found
  }
  for (const name of names) {
    const path = `plugins/${name}/store.db`
    if (lstatSync(join(sessionDir, path), { throwIfNoEntry: false }) !== undefined) found.add(path)
  }
  return found
}
