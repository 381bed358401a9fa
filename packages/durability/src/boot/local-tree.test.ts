import { mkdirSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tempDir } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import type { Manifest } from '../mirror/manifest/manifest.ts'
import { pathRecord } from '../tree/committed.ts'
import { lacks, lookAtTree } from './local-tree.ts'
import { CONVERSATION_PATH, databasePath } from '../tree/names.ts'

const IDS = ['one', 'nexus.agent.sub/researcher', 'x/y/z']

function treeWith(files: readonly string[]): { dir: string; manifest: Manifest } {
  const dir = tempDir()
  const entries = pathRecord<Manifest['entries'][string]>()
  for (const path of files) {
    mkdirSync(join(dir, path, '..'), { recursive: true })
    writeFileSync(join(dir, path), 'content')
    entries[path] = { size: 7, mode: 0o600, mtime_ns: '0', sha256: '0'.repeat(64) }
  }
  return { dir, manifest: { objects: [...files], entries } as unknown as Manifest }
}

describe('what a tree lost that a commit of it has', () => {
  it.each(IDS)('is seen for the database of %s: removed, emptied, replaced by a link or a directory', (id) => {
    const path = databasePath(id)
    const harms: ((file: string) => void)[] = [
      (file) => rmSync(file),
      (file) => truncateSync(file, 0),
      (file) => (truncateSync(file, 0), writeFileSync(`${file}-wal`, 'frames')),
      (file) => (renameSync(file, `${file}.moved`), symlinkSync(`${file}.moved`, file)),
      (file) => (rmSync(file), mkdirSync(file)),
      (file) => (renameSync(join(file, '..'), join(file, '../../moved')), symlinkSync('moved', join(file, '..'))),
    ]
    for (const harm of harms) {
      const { dir, manifest } = treeWith([CONVERSATION_PATH, path])
      expect(lacks(lookAtTree(dir), manifest)).toBe(false)
      harm(join(dir, path))
      expect(lacks(lookAtTree(dir), manifest)).toBe(true)
    }
  })

  it('is seen for a conversation that is gone, or that a link or a directory took the place of', () => {
    const harms: ((file: string) => void)[] = [
      (file) => rmSync(file),
      (file) => (renameSync(file, `${file}.moved`), symlinkSync(`${file}.moved`, file)),
      (file) => (rmSync(file), mkdirSync(file)),
      (file) => (renameSync(join(file, '..'), join(file, '../../moved')), symlinkSync('moved', join(file, '..'))),
    ]
    for (const harm of harms) {
      const { dir, manifest } = treeWith([CONVERSATION_PATH])
      expect(lacks(lookAtTree(dir), manifest)).toBe(false)
      harm(join(dir, CONVERSATION_PATH))
      expect(lacks(lookAtTree(dir), manifest)).toBe(true)
    }
  })

  it.each(['', '\n\n \n'])('is seen for a conversation of %j', (text) => {
    const { dir, manifest } = treeWith([CONVERSATION_PATH])
    writeFileSync(join(dir, CONVERSATION_PATH), text)
    expect(lacks(lookAtTree(dir), manifest)).toBe(true)
  })
})
