import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Engine } from '@nexus/engine'
import { type Backend, type Logger, objectStoreConfig, type ObjectStoreConfig } from '@nexus/objectstore'
import '@nexus/objectstore-azure'
import '@nexus/objectstore-fs'
import '@nexus/objectstore-gcs'
import '@nexus/objectstore-s3'
import { openAzureBackend } from '@nexus/objectstore-azure/driver'
import { openFsBackend } from '@nexus/objectstore-fs/driver'
import { openGcsBackend } from '@nexus/objectstore-gcs/driver'
import { openS3Backend } from '@nexus/objectstore-s3/driver'
import { describe, expect, it } from 'vitest'

const repositoryRoot = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..')
// Below this package, so that the workspace's packages are found as installed ones would be.
const examplesDir = join(repositoryRoot, 'packages', 'tooling', '.examples')
const registerSource = new URL('../src/source/register.mjs', import.meta.url).href
const run = promisify(execFile)

function newExample(prefix: string): string {
  mkdirSync(examplesDir, { recursive: true })
  return mkdtempSync(join(examplesDir, prefix))
}

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((path) => join(directory, path))
    .filter((path) => statSync(path).isFile())
}

function markdownFiles(): string[] {
  const readmes = ['packages', 'modules'].flatMap((group) =>
    readdirSync(join(repositoryRoot, group)).map((name) => join(repositoryRoot, group, name, 'README.md')),
  )
  const pages = filesBelow(join(repositoryRoot, 'docs'))
  return [join(repositoryRoot, 'README.md'), ...readmes, ...pages].filter(
    (path) => path.endsWith('.md') && existsSync(path),
  )
}

const FENCED = /^```[\s\S]*?^```$/gm
const LINK = /\[[^\]]*\]\(([^)\s]+)\)/g

function headings(path: string): Set<string> {
  const text = readFileSync(path, 'utf8').replaceAll(FENCED, '')
  return new Set(
    [...text.matchAll(/^#{1,6} +(.+)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .trim()
        .replaceAll(/\s/g, '-'),
    ),
  )
}

function brokenLinks(page: string): string[] {
  const text = readFileSync(page, 'utf8').replaceAll(FENCED, '')
  return [...text.matchAll(LINK)]
    .map(([, target = '']) => target)
    .filter((target) => {
      if (/^[a-z]+:/.test(target)) return !URL.canParse(target)
      const [path = '', anchor] = target.split('#')
      const file = path === '' ? page : resolve(dirname(page), path)
      if (!existsSync(file)) return true
      return anchor !== undefined && !headings(file).has(anchor)
    })
}

describe('links', () => {
  it.each(markdownFiles().map((path) => relative(repositoryRoot, path)))('those of %s lead somewhere', (page) => {
    expect(brokenLinks(join(repositoryRoot, page))).toEqual([])
  })
})

describe('the guide to object storage', () => {
  const page = readFileSync(join(repositoryRoot, 'docs/guides/object-storage.md'), 'utf8')
  const drivers: Record<string, (config: ObjectStoreConfig, options: { logger: Logger }) => Promise<Backend>> = {
    azure: openAzureBackend,
    fs: openFsBackend,
    gcs: openGcsBackend,
    s3: openS3Backend,
  }
  const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} }

  /** The options that a driver names when it refuses one it doesn't know. */
  async function optionsOf(backend: string): Promise<string[]> {
    const settings = backend === 's3' ? { region: 'eu-central-1' } : {}
    const config = objectStoreConfig({ backend, bucket: 'bucket', ...settings, options: { 'no option': true } })
    const refusal = await drivers[backend]?.(config, { logger: silent }).then(
      () => '',
      (error: Error) => error.message,
    )
    return /\(allowed: (.*)\)/.exec(refusal ?? '')?.[1]?.split(', ') ?? []
  }

  it.each(Object.keys(drivers))('has every option of %s, and no other', async (backend) => {
    const [, section = ''] = new RegExp(`^## \`${backend}\`([\\s\\S]*?)(?=^## )`, 'm').exec(page) ?? []
    const [table = ''] = /^\| option [\s\S]*?^$/m.exec(section) ?? []
    const shown = [...table.matchAll(/^\| (`[^|]*`) \|/gm)].flatMap(([, names = '']) => names.match(/\w+/g) ?? [])
    expect(shown.toSorted()).toEqual(await optionsOf(backend))
  })

  it('has configurations that the engine and the drivers take', async () => {
    const blocks = [...page.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(([, yaml = '']) => yaml)
    expect(blocks.length).toBeGreaterThan(0)
    for (const yaml of blocks) {
      await expect(Engine.fromYaml(yaml, { plugins: [] })).resolves.toBeInstanceOf(Engine)
      const [, backend = ''] = /backend: (\w+)/.exec(yaml) ?? []
      const options = [...yaml.matchAll(/^ {6}(\w+):/gm)].map(([, name]) => name)
      expect(await optionsOf(backend)).toEqual(expect.arrayContaining(options))
    }
  })
})

describe('the page on operating a store', () => {
  const page = readFileSync(join(repositoryRoot, 'docs/operations/object-storage.md'), 'utf8')

  it('has policies and lifecycle rules that are JSON', () => {
    const blocks = [...page.matchAll(/^```json\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text)
    expect(blocks.length).toBeGreaterThan(0)
    for (const block of blocks) expect(() => JSON.parse(block) as unknown).not.toThrow()
  })

  it('has a program that checks a store by using it', async () => {
    const [, program = ''] = /^```js check-store\.mjs\n([\s\S]*?)^```$/m.exec(page) ?? []
    const directory = newExample('check-store-')
    const bucket = join(directory, 'bucket')
    try {
      mkdirSync(bucket)
      writeFileSync(join(directory, 'check-store.mjs'), program)
      const flags = ['--import', registerSource, '--conditions', '@nexus/source']
      const { stdout } = await run(process.execPath, [...flags, 'check-store.mjs'], {
        cwd: directory,
        env: { ...process.env, NEXUS_MODULE: '@nexus/objectstore-fs', NEXUS_BACKEND: 'fs', NEXUS_BUCKET: bucket },
      })
      expect(stdout.match(/^ok /gm)).toHaveLength(7)
      expect(stdout).not.toContain('FAILED')
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  })
})

describe('the guide to going back in time', () => {
  it('has a program that does it', async () => {
    const page = readFileSync(join(repositoryRoot, 'docs/guides/time-travel.md'), 'utf8')
    const [, program = ''] = /^```ts time-travel\.ts\n([\s\S]*?)^```$/m.exec(page) ?? []
    const directory = newExample('time-travel-')
    try {
      mkdirSync(join(directory, 'bucket'))
      writeFileSync(join(directory, 'time-travel.mjs'), program)
      const flags = ['--import', registerSource, '--conditions', '@nexus/source']
      const { stdout } = await run(process.execPath, [...flags, 'time-travel.mjs'], { cwd: directory })
      expect(stdout).toMatch(/^1 claim/m)
      expect(stdout).toMatch(/^true$/m)
      expect(readFileSync(join(directory, 'essay-of-generation-2/files/draft.md'), 'utf8')).toBe('written in t1')
      expect(existsSync(join(directory, 'bucket/sessions/another-ending.v/commits'))).toBe(true)
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  }, 60_000)
})

describe('the guide to writing a backend', () => {
  const guide = readFileSync(join(repositoryRoot, 'docs/guides/writing-a-backend.md'), 'utf8')
  const outside = join(repositoryRoot, 'modules/objectstore-seamcheck/outside')
  const files = new Map(
    [...guide.matchAll(/^```(?:ts|json) (\S+)\n([\s\S]*?)^```$/gm)].map(([, path = '', text = '']) => [path, text]),
  )
  const manifest = JSON.parse(files.get('package.json') ?? '{}') as {
    exports: Record<string, string>
    scripts: Record<string, string>
  }

  it('shows the driver that is tested outside of the workspace, every file of it', () => {
    const tested = filesBelow(outside).map((path) => [relative(outside, path), readFileSync(path, 'utf8')])
    const shown = [...files].filter(([path]) => path.endsWith('.ts'))
    expect(Object.fromEntries(shown), 'copy what changed in outside/ into the page').toEqual(Object.fromEntries(tested))
  })

  it('installs every package that its files import', () => {
    const installed = [...guide.matchAll(/^npm install (.+)$/gm)].flatMap(([, names = '']) => names.split(' '))
    const imported = [...files.values()].flatMap((text) =>
      [...text.matchAll(/from '([^'.][^']*)'/g)]
        .map(([, name = '']) => name)
        .filter((name) => !name.startsWith('node:')),
    )
    expect(imported.length).toBeGreaterThan(0)
    expect(imported.filter((name) => !installed.includes(name))).toEqual([])
  })

  it('builds a package that holds the module and the driver, and resumes a session through it', async () => {
    const project = newExample('backend-')
    try {
      for (const [path, text] of files) {
        mkdirSync(dirname(join(project, path)), { recursive: true })
        writeFileSync(join(project, path), text)
      }
      expect(manifest.scripts['build']).toBe('tsc')
      const tsc = join(repositoryRoot, 'node_modules', '.bin', 'tsc')
      await run(tsc, [], { cwd: project }).catch((error: { stdout: string }) => {
        throw new Error(error.stdout)
      })
      const { stdout: packed } = await run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: project })
      const [{ files: contents = [] } = {}] = JSON.parse(packed) as { files?: { path: string }[] }[]
      const paths = contents.map(({ path }) => path)
      for (const entry of Object.values(manifest.exports)) expect(paths).toContain(entry.replace('./', ''))
      expect(paths.filter((path) => path.endsWith('.js'))).toHaveLength(Object.keys(manifest.exports).length)
      const { stdout } = await run(process.execPath, ['dist/src/session.js'], {
        cwd: project,
        env: { ...process.env, NODE_OPTIONS: '' },
      })
      expect(stdout).toContain('resumed')
    } finally {
      rmSync(project, { recursive: true, force: true })
    }
  }, 120_000)
})
