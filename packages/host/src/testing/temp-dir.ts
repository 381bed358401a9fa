import { chmodSync, lstatSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** A directory for the running test, removed after it. */
export function tempDir(): string {
  const dir = mkdtempSync(join(realpathSync(tmpdir()), 'nexus-session-'))
  onTestFinished(() => {
    openUp(dir)
    rmSync(dir, { recursive: true, force: true })
  })
  return dir
}

function openUp(dir: string): void {
  if (lstatSync(dir, { throwIfNoEntry: false })?.isDirectory() !== true) return
  chmodSync(dir, 0o700)
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    if (entry.isDirectory()) openUp(join(dir, entry.name))
  }
}

/** Everything below a directory as text, for "nothing was touched": names, kinds, contents by size and time. */
export function listing(dir: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .map((entry) => {
      const path = join(entry.parentPath, entry.name)
      const { mode, size, mtimeMs, nlink } = lstatSync(path)
      return `${path} ${mode.toString(8)} ${entry.isDirectory() ? '' : `${size} ${nlink}`} ${mtimeMs}`
    })
    .toSorted()
}
