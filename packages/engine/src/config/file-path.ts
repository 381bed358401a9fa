import { resolve } from 'node:path'

/** What relative paths and `~` are resolved against. */
export interface PathBase {
  /** The home directory. */
  readonly home: string
  /** The working directory. */
  readonly cwd: string
}

/** Why a text can't be a path of this machine, or undefined when it can. */
export function pathFault(path: string): string | undefined {
  if (path === '') return 'is empty'
  if (path.includes('\0')) return 'contains a NUL character'
  if (/^~[^/]/.test(path)) return 'begins with "~name"; only ~ and ~/... are expanded'
  return undefined
}

/** An absolute path: a leading `~` is the home directory, a relative path starts at the working directory. */
export function absolutePath(path: string, base: PathBase): string {
  if (path === '~') return base.home
  if (path.startsWith('~/')) return resolve(base.home, path.slice(2))
  return resolve(base.cwd, path)
}
