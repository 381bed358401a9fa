import { statSync } from 'node:fs'

/**
 * The size of a file in bytes, without opening it, which would drop this process's locks on it; 0 when it can't be had. Where
 * that matters, SQLite is what says why.
 */
export function fileSizeBytes(path: string): number {
  try {
    return statSync(path, { throwIfNoEntry: false })?.size ?? 0
  } catch {
    return 0
  }
}
