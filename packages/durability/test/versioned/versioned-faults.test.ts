import { describeVersionedFaults } from './versioned-faults-suite.ts'

// A twelfth of the calls; versioned-faults.slow.test.ts breaks every one.
describeVersionedFaults(12)
