import { describeChangeFaults } from './change-faults-suite.ts'

describeChangeFaults(7)
