import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const built = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url))

/** Each worker is looked for beside the code that starts it, and all files of a build lie in one directory. */
describe('the build of a package that starts worker threads', () => {
  it.each([
    ['packages/host', 'digest-worker'],
    ['packages/storage', 'copy-worker'],
    ['modules/objectstore-fs', 'objectstore-fs-worker'],
  ])('%s has %s.js where it is looked for', (directory, worker) => {
    expect(existsSync(built(`${directory}/dist/index.js`))).toBe(true)
    expect(existsSync(built(`${directory}/dist/${worker}.js`))).toBe(true)
    expect(readFileSync(built(`${directory}/tsdown.config.ts`), 'utf8')).toContain(`'${worker}'`)
  })
})
