import { awkwardKeyCases } from './cases/awkward-keys.ts'
import { cancelCases } from './cases/cancel.ts'
import { capabilityCases } from './cases/capabilities.ts'
import { concurrencyCases } from './cases/concurrency.ts'
import { conditionalCases } from './cases/conditional.ts'
import { deleteCases } from './cases/delete.ts'
import { getCases } from './cases/get.ts'
import { hydrateCases } from './cases/hydrate.ts'
import { keyCases } from './cases/keys.ts'
import { listCases } from './cases/list.ts'
import { putCases } from './cases/put.ts'
import type { ContractCase } from './contract-case.ts'

/** Every rule of the seam that can be tested from outside, in the order a driver is best written. */
export const backendContractCases: readonly ContractCase[] = [
  ...putCases,
  ...listCases,
  ...hydrateCases,
  ...deleteCases,
  ...keyCases,
  ...awkwardKeyCases,
  ...capabilityCases,
  ...getCases,
  ...conditionalCases,
  ...cancelCases,
  ...concurrencyCases,
]
