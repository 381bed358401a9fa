import { lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'
import { ENGINE_DIRECTORIES, PLUGINS_DIR } from './names.ts'

/**
 * Refuses a tree in which a link, or anything but a directory, lies where the engine keeps something of its own: what it
 * writes there would land outside of the session.
 *
 * @throws NexusError `PRECONDITION` naming the path
 */
export function refuseReplacedDirectories(sessionDir: string): void {
  const names = ENGINE_DIRECTORIES.map((name) => join(sessionDir, name))
  for (const path of [...names, ...entriesOf(join(sessionDir, PLUGINS_DIR))]) {
    const stat = lstatSync(path, { throwIfNoEntry: false })
    if (stat === undefined || stat.isDirectory()) continue
    // A plain file among the plugins is no plugin's directory.
    if (stat.isFile() && !names.includes(path)) continue
    throw new NexusError('PRECONDITION', `${path} is no directory: the engine writes there; move it away`, {
      op: 'session.open',
      key: path,
    })
  }
}

function entriesOf(dir: string): string[] {
  try {
    return lstatSync(dir).isDirectory() ? readdirSync(dir).map((name) => join(dir, name)) : []
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return []
    throw fromSystemError(error, 'session.open', dir)
  }
}
