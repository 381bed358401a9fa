import { NexusError } from '@nexus/errors'
import { type Slices, forEachSliced } from '@nexus/host'
import { ENGINE_DIRECTORIES } from '../../../tree/names.ts'

/** The paths of a tree, by what they are. */
export interface TreePaths {
  paths: readonly string[]
  links: ReadonlyMap<string, unknown>
  dirs: Readonly<Record<string, unknown>>
}

/**
 * Refuses to commit what no host could restore, whatever put it together: one path as two things, something below a file or a
 * link, or a file where the engine keeps a directory.
 *
 * @throws NexusError `CORRUPT` naming the path
 */
export async function refuseConflicts({ paths, links, dirs }: TreePaths, slices: Slices): Promise<void> {
  const leaves = new Set<string>()
  const directories = new Set<string>()
  await forEachSliced(paths, slices, (path) => void leaves.add(path))
  for (const path of links.keys()) {
    if (leaves.has(path)) throw conflict(path, 'it is a file and a link')
    leaves.add(path)
  }
  const misplaced = ENGINE_DIRECTORIES.find((path) => leaves.has(path))
  if (misplaced !== undefined) {
    throw conflict(misplaced, 'it is no directory, and the engine keeps something of its own there: move it away')
  }
  const look = (path: string): void => {
    for (let at = path.lastIndexOf('/'); at !== -1; at = path.lastIndexOf('/', at - 1)) {
      const parent = path.slice(0, at)
      if (directories.has(parent)) return
      if (leaves.has(parent)) throw conflict(path, `${parent} is no directory`)
      directories.add(parent)
    }
  }
  await forEachSliced(leaves, slices, look)
  await forEachSliced(Object.keys(dirs), slices, (path) => {
    if (leaves.has(path)) throw conflict(path, 'it is a directory and something else')
    look(path)
  })
}

function conflict(path: string, why: string): NexusError {
  return new NexusError('CORRUPT', `${path} can't be committed: ${why}`, { op: 'snapshot', key: path })
}
