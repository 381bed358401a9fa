import { cancelMutants } from './cancel.ts'
import { circumstanceMutants } from './circumstances.ts'
import { conditionalMutants } from './conditional.ts'
import { deleteMutants } from './delete.ts'
import { getMutants } from './get.ts'
import { hydrateMutants } from './hydrate.ts'
import { keyMutants } from './keys.ts'
import { listMutants } from './list.ts'
import { listNamesMutants } from './list-names.ts'
import type { Mutant } from './mutant.ts'
import { putMutants } from './put.ts'

/** Every backend that must not pass. */
export const mutants: readonly Mutant[] = [
  ...putMutants,
  ...listMutants,
  ...hydrateMutants,
  ...deleteMutants,
  ...keyMutants,
  ...getMutants,
  ...conditionalMutants,
  ...cancelMutants,
  ...listNamesMutants,
  ...circumstanceMutants,
]
