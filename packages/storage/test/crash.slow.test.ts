import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { NexusError } from '@nexus/errors'
import { describe, expect, it, onTestFinished } from 'vitest'
import { FAILPOINTS, openStorageManager } from '../src/index.ts'
import { startChild } from './child.ts'
import { column, integrityOf } from './sample-database.ts'
import { tempDir } from './temp-dir.ts'

// The first visit falls into the first snapshot, or the first open; a later one to another database, on another thread.
const VISITS = [1, 3]

function contents(dir: string): Map<string, Buffer> {
  const names = existsSync(dir) ? readdirSync(dir, { recursive: true, encoding: 'utf8' }) : []
  const files = names.map((name) => join(dir, name)).filter((path) => lstatSync(path).isFile())
  return new Map(files.map((path) => [path, readFileSync(path)]))
}

describe.each(FAILPOINTS)('a kill at %s', (failpoint) => {
  it.each(VISITS)(
    '(visit %i) loses nothing acknowledged, and its leftovers are neither used nor touched',
    async (nth) => {
      const dir = tempDir()
      const child = startChild('crash-child.ts', [dir, failpoint, String(nth)])
      const ended = await child.ended
      const said = new Set(child.messages)
      // A failpoint that is reached fewer times than asked for ends in a clean run instead.
      expect(ended).toBe(said.has('end') ? 0 : 'SIGKILL')
      expect(nth > 1 || ended === 'SIGKILL').toBe(true)

      const manager = openStorageManager({ sessionDir: join(dir, 'session'), storageRoot: join(dir, 'root') })
      onTestFinished(() => manager.dispose())
      const small = manager.open('session', 'small')
      const large = manager.open('session', 'large')
      expect(small.list()).toHaveLength(said.has('small written') ? 50 : 0)
      const rows = said.has('large written') ? large.db.prepare('SELECT count(*) FROM big').pluck().get() : undefined
      // Killed while the deletion was on its way, either state is right; once it was acknowledged, only one is.
      expect(said.has('large deleted') ? [1000] : [undefined, 3000, 1000]).toContain(rows)
      for (const { path } of [small, large]) expect(integrityOf(path)).toBe('ok')

      for (const name of ['first', 'second'].map((each) => join(dir, each))) {
        const before = contents(name)
        const again = manager.snapshot('session', name).then(
          () => 'made',
          (error: NexusError) => error.code,
        )
        // Where nothing lies in the way it may be made; where something does, that stays as it is.
        expect(await again).toBe(before.size === 0 ? 'made' : 'PRECONDITION')
        for (const [file, bytes] of before) expect(readFileSync(file).equals(bytes)).toBe(true)
      }
      const copies = await manager.snapshot('session', join(dir, 'fresh'))
      expect(copies.map(({ pluginId }) => pluginId)).toEqual(['large', 'small'])
      expect(column(join(dir, 'fresh/small/store.db'), 'SELECT key FROM kv')).toEqual(small.list())
    },
  )
})
