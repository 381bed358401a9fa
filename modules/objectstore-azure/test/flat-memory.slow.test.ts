import { execFile } from 'node:child_process'
import { statSync, truncateSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestStore, type TestStore } from './test-container.ts'

const MIB = 1024 * 1024
const SIZE_BYTES = 200 * MIB

let store: TestStore

beforeAll(async () => {
  store = await openTestStore()
})

afterAll(() => store.remove())

describe('a file of 200 MiB', () => {
  it('goes up in blocks and comes down in flat memory', async () => {
    const path = store.file('begin')
    truncateSync(path, SIZE_BYTES)
    const target = store.freshPath()
    const child = fileURLToPath(new URL('flat-memory-child.ts', import.meta.url))
    const args = [...process.execArgv, child, store.emulator.url, await store.newContainer(), path, target]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    expect(Number(stdout)).toBeLessThan(100)
    expect(statSync(target).size).toBe(SIZE_BYTES)
    expect(store.emulator.log.filter((line) => line === 'Put Block s/large')).toHaveLength(25)
  })
})
