import { closeSync } from 'node:fs'
import { type TreeCursor, fileFault } from '@nexus/host'
import type { Committed } from '../tree/committed.ts'
import { holdsText, LOOK_BYTES } from '../tree/holds-text.ts'
import {
  CONFIG_SNAPSHOT_PATH,
  CONVERSATION_PATH,
  ENGINE_DIRECTORIES,
  isEnginePlace,
  isPluginDatabase,
  META_PATH,
} from '../tree/names.ts'
import type { WalkedTree } from '../tree/tree-walk.ts'

/** What is known of a session besides its tree. */
export interface KnownPlaces {
  committed: Committed | undefined
  /** Files whose copy is stored, by path. */
  staged: ReadonlyMap<string, unknown>
  /** Databases that are open and could not be copied. */
  lost: readonly string[]
  cursor: TreeCursor
}

/**
 * Takes out of a walked tree what lies where the engine keeps something of its own and is something else: a link, a file or a
 * directory in the wrong place, an empty file, or nothing. A commit of it could not be resumed, or would take the place of
 * what was committed. All of it joins `unstorable`, so that the committed versions stay named and somebody is told.
 */
export function setAsideReplaced(tree: WalkedTree, { committed, staged, lost, cursor }: KnownPlaces): void {
  const entries = committed?.entries ?? {}
  const files = [META_PATH, CONFIG_SNAPSHOT_PATH, CONVERSATION_PATH].filter((path) => entries[path] !== undefined)
  for (const path of committed?.objects ?? []) if (isPluginDatabase(path)) files.push(path)
  const directories = new Set(ENGINE_DIRECTORIES)
  for (const path of [...files, ...lost, ...staged.keys()]) addParents(path, directories)
  const aside = (path: string, why: string): void => void tree.unstorable.push({ path, why, tree: true })

  for (const path of tree.links.keys()) {
    if (!directories.has(path) && !isEnginePlace(path)) continue
    tree.links.delete(path)
    aside(path, 'it is a link, and the engine keeps something of its own there')
  }
  for (const path of directories) {
    if (tree.files.delete(path)) aside(path, 'it is a file, and the engine keeps a directory there')
    if (tree.specials.includes(path)) aside(path, 'it is a special file, and the engine keeps a directory there')
  }
  for (const path of new Set([...files, ...lost, ...staged.keys()])) {
    if (tree.dirs.has(path)) {
      dropBelow(tree, path)
      aside(path, 'it is a directory, and the engine keeps a file there')
    } else if (!staged.has(path) && (lost.includes(path) || (entries[path]?.size ?? 0) > 0)) {
      const why = lost.includes(path) ? 'the file of an open database was deleted, emptied or replaced' : faultOf(path)
      if (why === undefined) continue
      tree.files.delete(path)
      aside(path, why)
    }
  }

  function faultOf(path: string): string | undefined {
    const size = tree.files.get(path)?.size
    if (size === undefined) return 'it is gone, and the committed one has content'
    const isEmpty = size === 0 || (path === CONVERSATION_PATH && isBlank(cursor, path, size))
    return isEmpty ? 'it was emptied, and the committed one has content' : undefined
  }
}

function isBlank(cursor: TreeCursor, path: string, sizeBytes: number): boolean {
  if (sizeBytes >= LOOK_BYTES) return false
  try {
    const fd = cursor.openFile(path)
    try {
      return !holdsText(fd)
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    // The step that stores it will find out.
    fileFault(error, 'snapshot.look', path)
    return false
  }
}

function dropBelow(tree: WalkedTree, dir: string): void {
  for (const map of [tree.files, tree.dirs, tree.links]) {
    for (const path of map.keys()) if (path === dir || path.startsWith(`${dir}/`)) map.delete(path)
  }
}

function addParents(path: string, into: Set<string>): void {
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) into.add(path.slice(0, at))
}
