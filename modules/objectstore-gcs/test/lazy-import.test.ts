import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'

/** Runs a program of its own and gives how many files of the SDK it has loaded. */
function sdkFilesAfter(program: string): number {
  const count = `
    import { createRequire } from 'node:module'
    const require = createRequire(import.meta.url)
    console.log(Object.keys(require.cache).filter((path) => /google-auth-library|gaxios|@google-cloud/.test(path)).length)`
  // The build, which loads what an embedder's program loads.
  const args = ['--input-type=module', '--eval', `${program}\n${count}`]
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', cwd: import.meta.dirname })
  expect(stderr).toBe('')
  return Number(stdout)
}

describe('importing the module', () => {
  it('registers the backend and loads nothing of the SDK', () => {
    const program = `
      import { registered } from '@nexus/objectstore'
      import '@nexus/objectstore-gcs'
      if (!registered('gcs')) throw new Error('not registered')`
    expect(sdkFilesAfter(program)).toBe(0)
  })

  it('by its driver registers nothing, and does load the SDK', () => {
    const program = `
      import { registered } from '@nexus/objectstore'
      import '@nexus/objectstore-gcs/driver'
      if (registered('gcs')) throw new Error('registered')`
    expect(sdkFilesAfter(program)).toBeGreaterThan(10)
  })
})
