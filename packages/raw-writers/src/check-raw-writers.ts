import { readdir, readFile } from 'node:fs/promises'
import { join, relative, resolve, sep } from 'node:path'
import { explainVerdict, judgeWriters, type ScannedSource, type WriterRow } from './judge-writers.ts'

/** What is checked. */
export interface RawWriterCheck {
  /** Directories with sources. */
  sources: readonly string[]
  /** What the paths in messages and rows are relative to. Default: the working directory. */
  root?: string
  /** Writers that may stay silent, each with a reason. */
  writers?: readonly WriterRow[]
}

const SOURCE = /\.[cm]?[jt]sx?$/
const NO_SOURCE = /\.(?:test|spec|d)\.[cm]?[jt]sx?$/
const SKIPPED = new Set(['node_modules', 'dist'])

/**
 * Reads every source below some directories, tests, declarations, `node_modules` and `dist` left out, and says which of them
 * write raw bytes without announcing it.
 *
 * @returns what to do, for people; empty when all is well
 * @throws the system error of a directory or file that can't be read
 */
export async function checkRawWriters({ sources, root = '.', writers = [] }: RawWriterCheck): Promise<string> {
  const from = resolve(root)
  const scanned: ScannedSource[] = []
  for (const directory of sources) await scan(resolve(from, directory), from, scanned)
  return explainVerdict(judgeWriters(scanned, writers))
}

async function scan(directory: string, root: string, found: ScannedSource[]): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory() && !SKIPPED.has(entry.name)) await scan(path, root, found)
    if (!entry.isFile() || !SOURCE.test(entry.name) || NO_SOURCE.test(entry.name)) continue
    found.push({ path: relative(root, path).replaceAll(sep, '/'), text: await readFile(path, 'utf8') })
  }
}
