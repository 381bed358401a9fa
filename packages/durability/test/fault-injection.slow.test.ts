import { describeFaultInjection } from './fault-injection-suite.ts'

describeFaultInjection(1)
