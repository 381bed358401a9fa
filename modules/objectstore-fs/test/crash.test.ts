import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FAILPOINTS } from '../src/disk/failpoint.ts'
import { crashSteps, objectsAfter, perform } from './crash-steps.ts'
import { openDirectBucket, type DirectBucket } from './direct-bucket.ts'
import { createTestBucket, type TestBucket } from './open-bucket.ts'

let test: TestBucket

beforeEach(() => {
  test = createTestBucket()
})

afterEach(() => test.remove())

function runChild(failpoint: string, nth: number): { signal: NodeJS.Signals | null; done: number } {
  const child = fileURLToPath(new URL('crash-child.ts', import.meta.url))
  const local = test.freshPath()
  mkdirSync(local)
  const args = [...process.execArgv, child, test.bucket, local, failpoint, String(nth)]
  const { signal, status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  if (signal === null && status !== 0) throw new Error(stderr)
  return { signal, done: stdout.split('\n').filter((line) => /^\d+$/.test(line)).length }
}

async function objectsOf(bucket: DirectBucket): Promise<Map<string, string>> {
  const objects = new Map<string, string>()
  for (const { key, sizeBytes } of await bucket.list('')) {
    const path = test.freshPath()
    await bucket.get(key, path)
    const content = readFileSync(path, 'utf8')
    expect(content).toHaveLength(sizeBytes)
    objects.set(key, content)
  }
  return objects
}

describe('a kill at a failpoint', () => {
  it.each(FAILPOINTS.flatMap((name) => [1, 3].map((nth) => [name, nth] as const)))(
    'at %s, time %i, leaves every object whole: as before the step or as after it',
    async (failpoint, nth) => {
      const { signal, done } = runChild(failpoint, nth)
      // Not every failpoint is passed three times; each is at least once.
      expect(signal === null ? [nth > 1, done] : signal).toEqual(
        signal === null ? [true, crashSteps.length] : 'SIGKILL',
      )
      const bucket = openDirectBucket(test.bucket)
      const objects = await objectsOf(bucket)
      expect([objectsAfter(done), objectsAfter(done + 1)]).toContainEqual(objects)

      // The next process takes up where this one died, and clears away what it left.
      for (const step of crashSteps.slice(done)) await perform(bucket, step, test.file(step.content ?? ''))
      expect(await objectsOf(bucket)).toEqual(objectsAfter(crashSteps.length))
      bucket.context.temps.reclaim(Date.now())
      expect(readdirSync(join(test.bucket, '\\tmp'))).toEqual([])
    },
  )
})

describe('FAILPOINTS', () => {
  it('names every failpoint of the source, and no other', () => {
    const src = fileURLToPath(new URL('../src', import.meta.url))
    const used = new Set<string>()
    for (const name of readdirSync(src, { recursive: true, encoding: 'utf8' })) {
      if (!name.endsWith('.ts') || name.endsWith('.test.ts') || name.endsWith('failpoint.ts')) continue
      const calls = readFileSync(join(src, name), 'utf8').matchAll(/failpoint\('([^']+)'\)/g)
      for (const [, point] of calls) used.add(point ?? '')
    }
    expect([...used].toSorted()).toEqual([...FAILPOINTS].toSorted())
  })
})
