export { gate, never } from './gate.ts'
export { keepingLogger, type LoggedLine } from './logged-lines.ts'
export { ManualClock, settle } from './manual-clock.ts'
export { listing, tempDir } from './temp-dir.ts'
