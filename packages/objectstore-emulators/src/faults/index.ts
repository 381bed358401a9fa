export { type Fault, type FaultKind, type FaultRule, FaultPlan, type RequestFacts } from './fault-plan.ts'
