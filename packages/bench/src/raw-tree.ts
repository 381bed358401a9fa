import { createHash } from 'node:crypto'
import { closeSync, fstatSync, lstatSync, mkdirSync, openSync, readdirSync, readSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'

const chunk = Buffer.allocUnsafeSlow(1024 * 1024)
let sink = ''

/** The files below a directory, each looked at with lstat, in one synchronous go. Paths are relative. */
export function walkFiles(root: string, dir = ''): string[] {
  const paths: string[] = []
  for (const entry of readdirSync(join(root, dir), { withFileTypes: true })) {
    const path = dir === '' ? entry.name : `${dir}/${entry.name}`
    if (entry.isDirectory()) paths.push(...walkFiles(root, path))
    else if (lstatSync(`${root}/${path}`).isFile()) paths.push(path)
  }
  return paths
}

/** Reads and hashes a file, and writes it to `destPath` where that is given. Returns its size. */
export function hashFile(path: string, destPath?: string): number {
  const from = openSync(path, 'r')
  const to = destPath === undefined ? undefined : openSync(destPath, 'wx')
  const hash = createHash('sha256')
  const { size } = fstatSync(from)
  for (let at = 0; at < size;) {
    const length = readSync(from, chunk, 0, Math.min(chunk.length, size - at), at)
    if (length === 0) throw new Error(`${path} shrank`)
    const bytes = chunk.subarray(0, length)
    hash.update(bytes)
    if (to !== undefined) writeSync(to, bytes)
    at += length
  }
  if (to !== undefined) closeSync(to)
  closeSync(from)
  sink = hash.digest('hex')
  return size
}

/** Reads, hashes and writes every file of a tree, in one synchronous go. */
export function copyTree(root: string, dest: string): void {
  const made = new Set<string>()
  for (const path of walkFiles(root)) {
    const destPath = join(dest, path)
    const parent = dirname(destPath)
    if (!made.has(parent)) {
      mkdirSync(parent, { recursive: true })
      made.add(parent)
    }
    hashFile(join(root, path), destPath)
  }
  if (sink === '') throw new Error(`${root} has no files`)
}
