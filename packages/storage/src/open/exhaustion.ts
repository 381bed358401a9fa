import { closeSync, constants, openSync, readFileSync } from 'node:fs'
import { systemCode } from '@nexus/errors'

let limit: string | undefined

/**
 * How many files this process may have open, as text; `unknown` where the platform doesn't tell. Read once, by the first
 * call: once the limit is reached nothing can be read any more.
 */
export function openFilesLimit(): string {
  return (limit ??= readLimit())
}

function readLimit(): string {
  try {
    return /^Max open files\s+(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? 'unknown'
  } catch {
    return 'unknown'
  }
}

/** What has run out, in words that name the limit, for a system error code; undefined for any other code. */
export function exhaustedBy(code: string | undefined): string | undefined {
  if (code === 'EMFILE') return `This process reached its open files limit (ulimit -n ${openFilesLimit()})`
  if (code === 'ENFILE') return 'This machine reached its open files limit (sysctl fs.file-max)'
  if (code === 'ENOMEM') return 'The machine is out of memory'
  return undefined
}

/** What SQLite may hold besides while it opens a file: the file, its WAL, the index of that, a journal, the directory. */
const MOST_AT_ONCE = 6

/**
 * Whether too little can be opened any more. SQLite only says that it can't open a file, and has closed the others that it
 * opened for it by then, so this asks the system for as many.
 */
export function probeExhaustion(): string | undefined {
  const held: number[] = []
  try {
    for (let i = 0; i < MOST_AT_ONCE; i++) held.push(openSync('/', constants.O_RDONLY | constants.O_DIRECTORY))
    return undefined
  } catch (error) {
    return exhaustedBy(systemCode(error))
  } finally {
    for (const fd of held) closeSync(fd)
  }
}
