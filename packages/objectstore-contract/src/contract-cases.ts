import { awkwardKeyCases } from './cases/awkward-keys.ts'
import { cancelCases } from './cases/cancel.ts'
import { capabilityCases } from './cases/capabilities.ts'
import { concurrencyCases } from './cases/concurrency.ts'
import { conditionalCases } from './cases/conditional.ts'
import { configurationCases } from './cases/configuration.ts'
import { deleteCases } from './cases/delete.ts'
import { getCases } from './cases/get.ts'
import { hydrateCases } from './cases/hydrate.ts'
import { keyCases } from './cases/keys.ts'
import { listCases, listNamesCases } from './cases/list.ts'
import { memoryCases } from './cases/memory.ts'
import { outageCases } from './cases/outages.ts'
import { putCases } from './cases/put.ts'
import { type ContractCase, STEP_CASES } from './contract-case.ts'

// First what the other cases are made of: where it fails, they say so instead of failing too.
const stepNames = new Set(Object.values(STEP_CASES))
const isNoStep = ({ name }: ContractCase): boolean => !stepNames.has(name)
const stepCases = [...putCases, ...listCases].filter((each) => !isNoStep(each))

/** Every rule of the seam that can be tested from outside, in the order a driver is best written. */
export const backendContractCases: readonly ContractCase[] = [
  ...stepCases,
  ...putCases.filter(isNoStep),
  ...listCases.filter(isNoStep),
  ...hydrateCases,
  ...deleteCases,
  ...keyCases,
  ...awkwardKeyCases,
  ...capabilityCases,
  ...getCases,
  ...listNamesCases,
  ...conditionalCases,
  ...cancelCases,
  ...concurrencyCases,
  ...configurationCases,
  ...outageCases,
  ...memoryCases,
]
