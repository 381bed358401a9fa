import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { BlobStore, FAILPOINTS } from '../src/index.ts'
import { scenarioBlobs, sha256Of } from './scenario.ts'

let root: string

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nexus-blob-crash-'))
})

afterEach(() => {
  rmSync(root, { recursive: true, force: true })
})

const child = fileURLToPath(new URL('crash-child.ts', import.meta.url))

function runChild(dir: string, failpoint: string, nth: number): { signal: NodeJS.Signals | null; lines: string[] } {
  const { signal, stdout, stderr, status } = spawnSync(
    process.execPath,
    [...process.execArgv, child, dir, failpoint, String(nth)],
    { encoding: 'utf8' },
  )
  if (signal === null && status !== 0) throw new Error(stderr)
  return { signal, lines: stdout.split('\n').filter((line) => line !== '') }
}

function binFiles(dir: string): string[] {
  return readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.bin'))
}

describe('a kill at a failpoint', () => {
  it.each(FAILPOINTS.flatMap((name) => [1, 3].map((nth) => [name, nth] as const)))(
    'at %s, time %i, loses no acknowledged blob and leaves none with wrong content',
    async (failpoint, nth) => {
      const dir = join(root, 'blobs')
      const { signal, lines } = runChild(dir, failpoint, nth)
      expect(signal).toBe('SIGKILL')
      const sweeping = lines.includes('sweeping')
      const acknowledged = new Set(lines.filter((line) => line.length === 64))

      for (const name of binFiles(dir)) {
        expect(sha256Of(readFileSync(join(dir, name)))).toBe(basename(name, '.bin'))
      }
      const store = BlobStore.open(dir)
      for (const { data, mediaType } of scenarioBlobs) {
        const sha256 = sha256Of(data)
        if (!acknowledged.has(sha256) || (sweeping && !(await store.has(sha256)))) continue
        const content = await store.get(sha256, { verify: true })
        expect(content.data.equals(data)).toBe(true)
        expect(content.mediaType).toBe(mediaType)
      }

      // The survivor cleans up, and takes everything again.
      await store.sweep()
      const leftovers = readdirSync(dir, { recursive: true, encoding: 'utf8' })
      expect(leftovers.filter((name) => name.includes('.nexus-tmp-'))).toEqual([])
      for (const { data, mediaType } of scenarioBlobs) {
        const again = await store.put(data, mediaType)
        expect(again.mediaType).toBe(mediaType)
      }
      expect(await store.verify()).toMatchObject({ blobs: scenarioBlobs.length })
    },
  )

  it('is not needed for the scenario to end', () => {
    expect(runChild(join(root, 'blobs'), 'none', 1)).toMatchObject({
      signal: null,
      lines: expect.arrayContaining(['end']),
    })
  })
})

describe('FAILPOINTS', () => {
  it('names every failpoint of the source, and no other', () => {
    const src = fileURLToPath(new URL('../src', import.meta.url))
    const used = new Set<string>()
    for (const name of readdirSync(src, { recursive: true, encoding: 'utf8' })) {
      if (!name.endsWith('.ts') || name.endsWith('.test.ts')) continue
      for (const [, point] of readFileSync(join(src, name), 'utf8').matchAll(/failpoint\('([^']+)'\)/g))
        used.add(point ?? '')
    }
    expect([...used].toSorted()).toEqual([...FAILPOINTS].toSorted())
  })
})
