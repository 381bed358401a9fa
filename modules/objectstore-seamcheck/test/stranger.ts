import { execFile } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const moduleDir = fileURLToPath(new URL('..', import.meta.url))
export const repositoryRoot: string = join(moduleDir, '..', '..')
/** A tool of this workspace. */
export const bin = (name: string): string => join(repositoryRoot, 'node_modules', '.bin', name)
export const run: typeof execFile.__promisify__ = promisify(execFile)

export interface Manifest {
  name: string
  version: string
  private?: boolean
}

/** What would be published. */
export function publicPackages(): { directory: string; manifest: Manifest }[] {
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
export function lendAddons(outside: string): void {
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

/**
 * A directory outside the workspace, as a stranger would have it: every package installed from its tarball by plain npm. The
 * addons are not compiled.
 */
export async function installStranger(): Promise<string> {
  const outside = mkdtempSync(join(tmpdir(), 'nexus-outside-'))
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
  return outside
}

/** Lends the workspace's compiler types and test runner to the stranger. */
export function lendTools(outside: string): void {
  const modules = join(outside, 'node_modules')
  mkdirSync(join(modules, '@types'), { recursive: true })
  if (!existsSync(join(modules, '@types/node'))) {
    symlinkSync(join(repositoryRoot, 'node_modules/@types/node'), join(modules, '@types/node'))
  }
  symlinkSync(join(repositoryRoot, 'node_modules/vitest'), join(modules, 'vitest'))
}

/** Compiles the stranger's driver, program and tests into `outDir`. */
export async function compile(
  outside: string,
  module: string,
  moduleResolution: string,
  outDir: string,
): Promise<void> {
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
