export { EXIT, type ExitCode } from './exit-codes.ts'
export { main } from './main.ts'
export { terminalOutput, type Output } from './output.ts'
