import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'

/** What a program loads, as its module graph sees it: CommonJS by require's cache, ES modules by a resolution hook. */
function loadedBy(program: string): string {
  const hooks = `
    export async function load(url, context, next) {
      process.stderr.write(url + '\\n')
      return next(url, context)
    }`
  const register = `
    import { register } from 'node:module'
    register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(hooks)}))
    ${program}
    const { createRequire } = await import('node:module')
    for (const path of Object.keys(createRequire(import.meta.url).cache)) process.stderr.write(path + '\\n')`
  // The build, which loads what an embedder's program loads.
  const args = ['--input-type=module', '-e', register]
  const { stderr, status } = spawnSync(process.execPath, args, { encoding: 'utf8', cwd: import.meta.dirname })
  expect(status).toBe(0)
  return stderr
}

describe('importing the module', () => {
  it('registers s3 and loads no SDK; opening does', () => {
    const imported = loadedBy(`
      const { registered } = await import('@nexus/objectstore')
      await import('@nexus/objectstore-s3')
      if (!registered('s3')) process.exit(1)`)
    expect(imported).toContain('objectstore-s3/dist/index.js')
    expect(imported).not.toMatch(/@aws-sdk|@smithy|proxy-agent/)
    const driver = loadedBy(`await import('@nexus/objectstore-s3/driver')`)
    expect(driver).toMatch(/@aws-sdk/)
    // The proxy's agents only where a proxy is configured.
    expect(driver).not.toMatch(/proxy-agent/)
  })

  it('by its driver registers nothing', () => {
    loadedBy(`
      const { backends } = await import('@nexus/objectstore')
      await import('@nexus/objectstore-s3/driver')
      if (backends().length > 0) process.exit(1)`)
  })
})
