import nodeFs, { constants } from 'node:fs'
import { descriptorPath } from './descriptor-path.ts'

/** The part of `node:fs` that a walk uses; tests hand in one that fails or records. */
export type DirectoryWalkFs = Pick<typeof nodeFs, 'openSync' | 'closeSync' | 'mkdirSync'>

/** A directory that is held open, so that it stays the same one whatever becomes of its name. */
export interface HeldDirectory {
  readonly fd: number
  /** A path for system calls that reaches `name` inside this very directory. */
  at(name: string): string
  close(): void
}

const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY
const DIRECTORY_MODE = 0o700

/**
 * Opens a directory by its path and then others below it by name, never through a link, and gives the last one. A component
 * that is swapped while this runs is either the one that was opened or refused. Without `/proc` (not Linux) the check of a
 * component and its use are two system calls, and a swap between them is not noticed.
 *
 * @param root trusted: links on the way to it, and its own, are followed
 * @param names one component each
 * @param options `create` makes what is missing below the root, 0700; `visit` sees every directory in turn, the root first
 * @throws the system error: `ENOENT` for a missing component, `ENOTDIR` or `ELOOP` for a link or a file in its place
 */
export function holdDirectory(
  root: string,
  names: readonly string[] = [],
  options: { create?: boolean; visit?: (fd: number) => void; fs?: DirectoryWalkFs } = {},
): HeldDirectory {
  const { create = false, visit, fs = nodeFs } = options
  let held = hold(root, DIRECTORY, fs)
  try {
    visit?.(held.fd)
    for (const name of names) {
      const path = held.at(name)
      const parent = held
      held = create ? holdOrMake(path, fs) : hold(path, DIRECTORY | constants.O_NOFOLLOW, fs)
      parent.close()
      visit?.(held.fd)
    }
    return held
  } catch (error) {
    held.close()
    throw error
  }
}

function holdOrMake(path: string, fs: DirectoryWalkFs): HeldDirectory {
  try {
    return hold(path, DIRECTORY | constants.O_NOFOLLOW, fs)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  try {
    fs.mkdirSync(path, DIRECTORY_MODE)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  return hold(path, DIRECTORY | constants.O_NOFOLLOW, fs)
}

function hold(path: string, flags: number, fs: DirectoryWalkFs): HeldDirectory {
  const fd = fs.openSync(path, flags)
  let open = true
  return {
    fd,
    at: (name) => `${descriptorPath(fd) ?? path}/${name}`,
    close: () => {
      if (open) fs.closeSync(fd)
      open = false
    },
  }
}
