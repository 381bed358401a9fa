import { existsSync, mkdirSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'

// A tool that replaces directories of a session by links, in a loop, until it is killed: <session directory> <directory
// outside that has the same names> <name>...
const [dir = '', outside = '', ...names] = process.argv.slice(2)
process.stdout.write('ready\n')
const end = Date.now() + 60_000
for (let round = 0; Date.now() < end; round++) {
  const name = names[round % names.length] ?? ''
  const place = join(dir, name)
  const aside = join(dir, `.aside-${name.replaceAll('/', '-')}`)
  try {
    renameSync(place, aside)
    symlinkSync(join(outside, name), place)
    // Long enough now and then for a whole reading to happen in between.
    if (round % 7 === 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3)
    rmSync(place)
    renameSync(aside, place)
  } catch {
    // The engine made the directory anew meanwhile: what it made is as good as the one that was taken away.
    if (existsSync(aside) && existsSync(place)) rmSync(aside, { recursive: true, force: true })
    mkdirSync(place, { recursive: true })
  }
}
