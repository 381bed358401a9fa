import { cpSync, existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bin, compile, installStranger, lendAddons, lendTools, publicPackages, run } from './stranger.ts'

describe('a package outside this workspace', () => {
  let outside: string

  beforeAll(async () => {
    outside = await installStranger()
    lendAddons(outside)
    lendTools(outside)
  }, 300_000)

  afterAll(() => {
    rmSync(outside, { recursive: true, force: true })
  })

  it('is installed with one copy of the seam', () => {
    expect(existsSync(join(outside, 'node_modules/@nexus/engine/node_modules'))).toBe(false)
  })

  it('compiles its driver under bundler and nodenext resolution', async () => {
    await compile(outside, 'esnext', 'bundler', 'bundled')
    await compile(outside, 'nodenext', 'nodenext', 'built')
  }, 120_000)

  it('resumes a session through its driver, registered by one import', async () => {
    const { stdout } = await run(process.execPath, ['built/src/session.js'], { cwd: outside, timeout: 60_000 })
    expect(stdout).toContain('resumed')
  }, 90_000)

  it('passes both suites under node:test', async () => {
    const { stdout } = await run(process.execPath, ['--test', '--test-reporter=tap', 'built/test/node-test.js'], {
      cwd: outside,
      timeout: 240_000,
      maxBuffer: 2 ** 26,
      env: { ...process.env, NODE_TEST_CONTEXT: undefined, NODE_OPTIONS: '' },
    }).catch((error: { stdout: string }) => ({ stdout: error.stdout }))
    expect(stdout).toMatch(/^# pass [1-9]\d+$/m)
    expect(stdout.match(/^\s*not ok .*/gm)).toBeNull()
  }, 300_000)

  it('passes both suites under vitest', async () => {
    const { stdout } = await run(bin('vitest'), ['run', '--root', outside, 'built/test/vitest.test.js'], {
      cwd: outside,
      timeout: 240_000,
      maxBuffer: 2 ** 26,
      env: { ...process.env, VITEST: undefined, VITEST_POOL_ID: undefined, NODE_OPTIONS: '' },
    }).catch((error: { stdout: string; stderr: string }) => ({ stdout: error.stdout + error.stderr }))
    const summary = stripVTControlCharacters(stdout)
    expect(summary).toMatch(/Tests\s+\d+ passed/)
    expect(summary).not.toMatch(/\d+ failed/)
  }, 300_000)

  it('can require() every package', async () => {
    const names = publicPackages().map(({ manifest }) => manifest.name)
    const script = names.map((name) => `require(${JSON.stringify(name)})`).join(';')
    await run(process.execPath, ['--no-warnings', '-e', script], { cwd: outside, timeout: 60_000 })
  }, 90_000)

  it('shares one registry between two copies of the seam', async () => {
    const copy = join(outside, 'second', 'node_modules', '@nexus', 'objectstore')
    cpSync(join(outside, 'node_modules/@nexus/objectstore'), copy, { recursive: true })
    const script = `
      const first = await import('@nexus/objectstore')
      const second = await import(${JSON.stringify(pathToFileURL(join(copy, 'dist/index.js')).href)})
      if (first.register === second.register) throw new Error('it is one copy')
      first.register('twice', () => undefined)
      process.stdout.write(second.backends().join())`
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { cwd: outside })
    expect(stdout).toBe('twice')
  })
})
