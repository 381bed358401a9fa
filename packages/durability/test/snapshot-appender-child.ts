import { closeSync, openSync, writeSync } from 'node:fs'

// Appends a numbered line to a file every millisecond until it is killed: <file>
const fd = openSync(process.argv[2] ?? '', 'a')
let line = 0
process.stdout.write('ready\n')
const end = Date.now() + 60_000
while (Date.now() < end) {
  writeSync(fd, `line ${++line}\n`)
  const next = performance.now() + 1
  while (performance.now() < next);
}
closeSync(fd)
