import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const CACHE = fileURLToPath(new URL('../../../../node_modules/.cache/nexus-source', import.meta.url))

/** Tells whether a file has changed. */
export function stampOf(path) {
  const { mtimeNs, size, ino } = statSync(path, { bigint: true })
  return `${mtimeNs} ${size} ${ino}`
}

/** The bundle of a file, if none of the files in it has changed since. */
export function keptBundle(path) {
  try {
    const { inputs, name } = JSON.parse(readFileSync(listOf(path), 'utf8'))
    const isCurrent = Object.entries(inputs).every(([input, stamp]) => stamp === stampOf(input))
    return isCurrent ? readFileSync(join(CACHE, name)) : undefined
  } catch {
    // Not built yet, a file of it is gone, or nothing can be opened any more.
    return undefined
  }
}

/** Keeps the bundle of a file, with its source map. Returns it as it is loaded. */
export function keepBundle(path, { inputs, code, map }) {
  // Named by its content: a process that reads the list of another build never gets this one's code.
  const name = `${createHash('sha256').update(code).digest('hex').slice(0, 32)}.js`
  const mapPath = join(CACHE, `${name}.map`)
  const source = Buffer.concat([code, Buffer.from(`\n//# sourceMappingURL=${pathToFileURL(mapPath).href}\n`)])
  try {
    mkdirSync(CACHE, { recursive: true })
    replace(mapPath, map)
    replace(join(CACHE, name), source)
    replace(listOf(path), JSON.stringify({ inputs, name }))
  } catch {
    // A process that may write no more runs all the same.
  }
  return source
}

function listOf(path) {
  return join(CACHE, `${createHash('sha256').update(path).digest('hex').slice(0, 32)}.json`)
}

function replace(path, content) {
  const temp = `${path}.${process.pid}`
  writeFileSync(temp, content)
  renameSync(temp, path)
}
