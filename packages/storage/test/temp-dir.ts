import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { openStorageManager, type StorageManager, type StorageManagerOptions } from '../src/storage-manager.ts'

/** A directory that goes when the test ends. */
export function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'nexus-storage-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** A manager over a fresh directory, disposed when the test ends. */
export function tempManager(options: Partial<StorageManagerOptions> = {}): { manager: StorageManager; dir: string } {
  const dir = tempDir()
  const manager = openStorageManager({ sessionDir: join(dir, 'session'), storageRoot: join(dir, 'root'), ...options })
  onTestFinished(() => manager.dispose())
  return { manager, dir }
}
