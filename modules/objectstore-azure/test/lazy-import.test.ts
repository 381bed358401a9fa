import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'

/** Runs a program of its own and gives how many files of the SDK it has loaded: they are ES modules, which loaders see. */
function sdkFilesAfter(program: string): number {
  const hooks = `import { writeSync } from 'node:fs'
    export async function resolve(specifier, context, next) {
      const found = await next(specifier, context)
      writeSync(1, found.url + '\\n')
      return found
    }`
  const register = `import { register } from 'node:module'
    register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(hooks)}))
    await import('data:text/javascript,')`
  const imports = program.replaceAll(/import '([^']+)'/g, `await import('$1')`)
  // The build, which loads what an embedder's program loads.
  const args = ['--input-type=module', '--eval', `${register}\n${imports}`]
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', cwd: import.meta.dirname })
  expect(stderr).toBe('')
  expect(stdout).toContain('objectstore-azure')
  return stdout.split('\n').filter((url) => /@azure[+/]/.test(url)).length
}

describe('importing the module', () => {
  it('registers the backend and loads nothing of the SDK', () => {
    const program = `
      import '@nexus/objectstore-azure'
      const { registered } = await import('@nexus/objectstore')
      if (!registered('azure')) throw new Error('not registered')`
    expect(sdkFilesAfter(program)).toBe(0)
  })

  it('by its driver registers nothing, and does load the SDK', () => {
    const program = `
      import '@nexus/objectstore-azure/driver'
      const { registered } = await import('@nexus/objectstore')
      if (registered('azure')) throw new Error('registered')`
    expect(sdkFilesAfter(program)).toBeGreaterThan(10)
  })
})
