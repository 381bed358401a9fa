import { statSync } from 'node:fs'
import { systemCode } from '@nexus/errors'

/**
 * The size of a file in bytes, without opening it, which would drop this process's locks on it; 0 when there is none.
 *
 * @throws the system error for anything else: a file that can't be looked at isn't an empty one
 */
export function fileSizeBytes(path: string): number {
  try {
    return statSync(path, { throwIfNoEntry: false })?.size ?? 0
  } catch (error) {
    if (systemCode(error) === 'ENOTDIR') return 0
    throw error
  }
}
