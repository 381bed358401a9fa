import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/** Everything in a tree that a commit keeps of it, a line each. */
export function treeListing(dir: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .map((entry) => {
      const path = join(entry.parentPath, entry.name)
      const name = path.slice(dir.length + 1)
      const { mode, mtimeNs, size } = lstatSync(path, { bigint: true })
      const bits = Number(mode & 0o777n).toString(8)
      if (entry.isSymbolicLink()) return `${name} -> ${readlinkSync(path)}`
      if (entry.isDirectory()) return `${name}/ ${bits}`
      // What is restored has microseconds.
      return `${name} ${bits} ${size} ${mtimeNs / 1000n} ${readFileSync(path, 'latin1')}`
    })
    .toSorted()
}
