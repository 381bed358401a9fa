// Appends records until the disk is full; the kernel is told that it is, by a limit on the size of files.
import { execFileSync } from 'node:child_process'
import { openWorkspace } from '../../src/session/workspace.ts'

const [dir, limitBytes] = process.argv.slice(2) as [string, string]

// The signal that comes with the limit would end the process; the failed call is what counts.
process.on('SIGXFSZ', () => undefined)
const workspace = await openWorkspace({ id: 's1', dir })
execFileSync('prlimit', [`--pid=${process.pid}`, `--fsize=${limitBytes}`])

let written = 0
let error: { code?: string; op?: string } = {}
const record = Buffer.alloc(30_000, 'r')
record[record.length - 1] = 0x0a
try {
  for (; written < 100; written++) await workspace.appendFile('files/log', record)
} catch (caught) {
  error = caught as typeof error
}
const whole = await workspace
  .writeFile('files/whole', Buffer.alloc(200_000))
  .catch((caught: { code: string }) => caught.code)
const first = await workspace
  .appendFile('files/first', Buffer.alloc(200_000))
  .catch((caught: { code: string }) => caught.code)
process.send?.({ written, code: error.code, op: error.op, whole, first })
