import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { objectStoreConfig } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openFsBackend } from '../src/driver.ts'
import { findWorkerFile } from '../src/worker/thread.ts'
import { createTestBucket, type TestBucket } from './open-bucket.ts'

let test: TestBucket

beforeEach(() => {
  test = createTestBucket()
})

afterEach(() => test.remove())

describe('a bundle that left the file of the worker behind', () => {
  it('works on the main thread, and the first call names the file and the remedy', async () => {
    const warnings: string[] = []
    const drop = (): void => undefined
    const logger = {
      debug: drop,
      info: drop,
      warn: (_: unknown, text: string) => void warnings.push(text),
      error: drop,
    }
    const config = objectStoreConfig({ backend: 'fs', bucket: test.bucket })
    const backend = await openFsBackend(config, { logger }, { withoutThread: true })
    await backend.put('s/a', test.file('content'))
    expect(await backend.putIfAbsent('s/a', test.file('other'))).toBe(false)
    expect(await backend.listNames('')).toEqual(['s'])
    const destination = test.freshPath()
    mkdirSync(destination)
    await backend.hydrate('s', destination)
    expect(readFileSync(join(destination, 'a'), 'utf8')).toBe('content')
    await backend.close()
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toMatch(/objectstore-fs-worker\.js is missing.*out of the bundle/)
  })

  it('is told by the absence of the file, in either format', () => {
    expect(findWorkerFile(undefined)).toBeUndefined()
    expect(findWorkerFile(pathToFileURL(test.file('bundle')).href)).toBeUndefined()
    expect(findWorkerFile('data:text/javascript,1')).toBeUndefined()
  })
})

describe('names one level below a prefix', () => {
  it('are told without a look at the objects below them', async () => {
    const backend = await test.open()
    for (const key of ['s/a/1', 's/a/2', 's/d', 's-x/y']) await backend.put(key, test.file('x'))
    expect((await backend.listNames('s')).toSorted()).toEqual(['a', 'd'])
    expect((await backend.listNames('')).toSorted()).toEqual(['s', 's-x'])
    expect(await backend.listNames('none')).toEqual([])
  })
})
