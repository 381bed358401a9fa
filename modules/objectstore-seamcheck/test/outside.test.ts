import { execFile } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify, stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const moduleDir = fileURLToPath(new URL('..', import.meta.url))
const repositoryRoot = join(moduleDir, '..', '..')
const bin = (name: string): string => join(repositoryRoot, 'node_modules', '.bin', name)
const run = promisify(execFile)

interface Manifest {
  name: string
  version: string
  private?: boolean
}

function publicPackages(): { directory: string; manifest: Manifest }[] {
  return ['packages', 'modules'].flatMap((group) =>
    readdirSync(join(repositoryRoot, group))
      .map((name) => join(repositoryRoot, group, name))
      .filter((directory) => existsSync(join(directory, 'package.json')))
      .map((directory) => ({
        directory,
        manifest: JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as Manifest,
      }))
      .filter(({ manifest }) => manifest.private !== true),
  )
}

/** Addons were compiled for this machine when the workspace was installed; compiling them again would prove nothing new. */
function lendAddons(outside: string): void {
  for (const [owner, name] of [
    ['storage', 'better-sqlite3'],
    ['journal', 'zstd-napi'],
  ] as const) {
    const compiled = createRequire(join(repositoryRoot, 'packages', owner, 'package.json')).resolve(
      `${name}/package.json`,
    )
    cpSync(join(dirname(compiled), 'build'), join(outside, 'node_modules', name, 'build'), { recursive: true })
  }
}

async function compile(outside: string, module: string, moduleResolution: string, outDir: string): Promise<void> {
  const options = ['--target', 'es2023', '--lib', 'es2023', '--types', 'node', '--strict', '--skipLibCheck', 'false']
  await run(
    bin('tsc'),
    [
      ...options,
      '--module',
      module,
      '--moduleResolution',
      moduleResolution,
      '--outDir',
      outDir,
      '--rootDir',
      '.',
      'src/session.ts',
      'test/node-test.ts',
      'test/vitest.test.ts',
    ],
    { cwd: outside },
  ).catch((error: { stdout: string }) => {
    throw new Error(`tsc ${moduleResolution}: ${error.stdout}`)
  })
}

describe('a package outside this workspace', () => {
  let outside: string

  beforeAll(async () => {
    outside = mkdtempSync(join(tmpdir(), 'nexus-outside-'))
    const tarballs = join(outside, 'tarballs')
    mkdirSync(tarballs)
    const dependencies: Record<string, string> = {}
    for (const { directory, manifest } of publicPackages()) {
      await run(bin('pnpm'), ['pack', '--pack-destination', tarballs], { cwd: directory })
      dependencies[manifest.name] = `file:tarballs/${manifest.name.slice(1).replace('/', '-')}-${manifest.version}.tgz`
    }
    cpSync(join(moduleDir, 'outside'), outside, { recursive: true })
    writeFileSync(
      join(outside, 'package.json'),
      JSON.stringify({ name: 'stranger', version: '1.0.0', type: 'module', dependencies }),
    )
    await run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: outside })
    lendAddons(outside)
    mkdirSync(join(outside, 'node_modules', '@types'), { recursive: true })
    if (!existsSync(join(outside, 'node_modules/@types/node'))) {
      symlinkSync(join(repositoryRoot, 'node_modules/@types/node'), join(outside, 'node_modules/@types/node'))
    }
    symlinkSync(join(repositoryRoot, 'node_modules/vitest'), join(outside, 'node_modules/vitest'))
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
})
