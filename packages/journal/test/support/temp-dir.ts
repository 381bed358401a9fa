import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/**
 * A directory that goes when the running test ends.
 *
 * @param atEnd the test's own hook, which concurrent tests must hand over
 */
export function tempDir(atEnd: (cleanUp: () => void) => void = onTestFinished): string {
  const dir = mkdtempSync(join(tmpdir(), 'nexus-journal-'))
  atEnd(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}
