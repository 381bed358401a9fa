import { type ErrorCode, isNexusError } from '@nexus/errors'

/** Somebody answered, and waiting changes nothing about the answer. */
const ANSWERS: ReadonlySet<ErrorCode> = new Set([
  'ABORTED',
  'CORRUPT',
  'INTERNAL',
  'INVALID_ARGUMENT',
  'PRECONDITION',
  'UNSUPPORTED',
])

/** The operation of what a boot decided: it ends the boot, whatever the local tree holds. */
export const DECIDED = 'durability.resolve-tree'

/** Whether the store, or the disk, could not be asked: a run may go on then and ask again. */
export function isOutage(error: unknown): boolean {
  return isNexusError(error) && error.op !== DECIDED && !ANSWERS.has(error.code)
}
