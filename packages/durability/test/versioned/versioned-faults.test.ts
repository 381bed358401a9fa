import { describeVersionedFaults } from './versioned-faults-suite.ts'

// A sixth of the calls; versioned-faults.slow.test.ts breaks every one.
describeVersionedFaults(6)
