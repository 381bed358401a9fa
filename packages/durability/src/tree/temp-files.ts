import { readdirSync, unlinkSync } from 'node:fs'
import { isAbandonedTemp, isEngineTempName, Slices, TreeCursor, fileFault } from '@nexus/host'
import { removeStagingDir } from './staging.ts'

const OP = 'session.sweep'

/**
 * Removes the temporary files of killed runs from a directory and all below it. Goes through no link.
 *
 * @param options `isOurs`: the caller holds the lock of this tree and nothing writes to it yet, so that every temporary file
 *   but those of processes that try for the lock is a leftover. Without it, those go whose writer is seen to be dead
 * @returns paths of what was removed, relative to `dir`
 * @throws NexusError `NOT_FOUND` when there is no such directory, `LOCAL_IO`
 */
export async function sweepTemps(
  dir: string,
  { isOurs = false, nowMs, slices = new Slices() }: { isOurs?: boolean; nowMs: number; slices?: Slices },
): Promise<string[]> {
  const removed: string[] = []
  const cursor = new TreeCursor(dir)
  try {
    const pending = ['']
    for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
      for (const entry of entriesOf(cursor, at)) {
        if (slices.due) await slices.pause()
        const path = at === '' ? entry.name : `${at}/${entry.name}`
        if (!isEngineTempName(entry.name)) {
          if (entry.isDirectory()) pending.push(path)
          continue
        }
        const stats = look(cursor, path)
        const isLeftover = (isOurs && at !== '') || isAbandonedTemp(entry.name, Number(stats?.mtimeMs ?? nowMs), nowMs)
        if (stats === undefined || !isLeftover) continue
        if (stats.isDirectory()) await removeStagingDir(cursor.place(path))
        else unlinkSync(cursor.place(path))
        removed.push(path)
      }
    }
    return removed
  } finally {
    cursor.close()
  }
}

function entriesOf(cursor: TreeCursor, dir: string): ReturnType<typeof readEntries> {
  try {
    return readEntries(cursor.directory(dir))
  } catch (error) {
    fileFault(error, OP, dir)
    return []
  }
}

const readEntries = (dir: string): { name: string; isDirectory(): boolean }[] =>
  readdirSync(dir, { withFileTypes: true })

function look(cursor: TreeCursor, path: string): ReturnType<TreeCursor['lstat']> {
  try {
    return cursor.lstat(path)
  } catch (error) {
    fileFault(error, OP, path)
    return undefined
  }
}
