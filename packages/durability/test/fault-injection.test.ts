import { describeFaultInjection } from './fault-injection-suite.ts'

// A sixth of the calls; fault-injection.slow.test.ts breaks every one.
describeFaultInjection(6)
