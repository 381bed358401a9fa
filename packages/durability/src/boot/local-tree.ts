import { closeSync, type Dirent, lstatSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { systemCode } from '@nexus/errors'
import { openRegular } from '@nexus/host'
import type { Committed } from '../tree/committed.ts'
import { holdsText } from '../tree/holds-text.ts'
import { CONVERSATION_PATH, isPluginDatabase, PLUGINS_DIR } from '../tree/names.ts'

/** What a session's tree holds of what every commit of it must, before any plugin of this run wrote to it. */
export interface LocalTree {
  /** The conversation holds something. */
  readonly hasConversation: boolean
  /** Session-relative paths of the plugins' databases that hold something. */
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
export function lacks({ hasConversation, databases }: LocalTree, { entries, objects }: Committed): boolean {
  if (!hasConversation && (entries[CONVERSATION_PATH]?.size ?? 0) > 0) return true
  return objects.some((path) => isPluginDatabase(path) && (entries[path]?.size ?? 1) > 0 && !databases.has(path))
}

function holdsConversation(sessionDir: string): boolean {
  const path = join(sessionDir, CONVERSATION_PATH)
  try {
    // A link, at the file's place or the directory's, is not the conversation, whatever lies behind it.
    const isThere = lstatSync(dirname(path)).isDirectory() && lstatSync(path).isFile()
    return isThere && readsAsText(path)
  } catch (error) {
    // One that is there and can't be read is for the boot to complain about.
    return systemCode(error) !== 'ENOENT'
  }
}

function readsAsText(path: string): boolean {
  const { fd } = openRegular(path)
  try {
    return holdsText(fd)
  } finally {
    closeSync(fd)
  }
}

function databasesIn(sessionDir: string): Set<string> {
  const found = new Set<string>()
  const pending = [PLUGINS_DIR]
  for (let dir = pending.pop(); dir !== undefined; dir = pending.pop()) {
    for (const entry of entriesOf(join(sessionDir, dir))) {
      const path = `${dir}/${entry.name}`
      // Not through a link: what lies behind it is no part of the tree.
      if (entry.isDirectory()) pending.push(path)
      else if (entry.isFile() && isPluginDatabase(path) && holdsDatabase(join(sessionDir, path))) found.add(path)
    }
  }
  return found
}

function entriesOf(dir: string): Dirent[] {
  try {
    // A link in the place of the directory would be followed here.
    return lstatSync(dir).isDirectory() ? readdirSync(dir, { withFileTypes: true }) : []
  } catch {
    return []
  }
}

/**
 * Looked at, never opened: SQLite holds locks on it. One of no bytes holds nothing, also with a write-ahead log beside it,
 * which SQLite deletes then.
 */
function holdsDatabase(path: string): boolean {
  return (lstatSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0
}
