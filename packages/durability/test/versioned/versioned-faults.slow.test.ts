import { describeVersionedFaults } from './versioned-faults-suite.ts'

describeVersionedFaults(1)
