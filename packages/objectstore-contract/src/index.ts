export type { Plant } from './case-context.ts'
export {
  type Capability,
  type CaseContext,
  type ChangedConfig,
  type ContractCase,
  ContractViolation,
  type Requirement,
} from './contract-case.ts'
export { backendContractCases } from './contract-cases.ts'
export {
  describeBackendContract,
  type DescribeFunction,
  type DescribeOptions,
  type ItFunction,
} from './describe-backend-contract.ts'
export { type CaseReport, type ContractReport, runBackendContract, type RunOptions } from './run-backend-contract.ts'
export { verifyBackend, type VerifyOptions, type VerifyReport } from './verify-backend.ts'
export { type CaseOutcome, type NewBackend, runCase, type SuiteOptions } from './run-case.ts'
