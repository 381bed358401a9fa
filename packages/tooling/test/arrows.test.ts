import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'

interface Tables {
  packages?: Record<string, string[]>
  free?: string[]
  folders?: Record<string, Record<string, string[]>>
  mostFiles?: number
  mostLines?: number
}

const roots: string[] = []
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true })
})

/** A repository of one package, `@x/one` in `packages/one`, and what it says to its tables. */
async function problemsOf(files: Record<string, string>, tables: Tables = {}): Promise<string[]> {
  const root = mkdtempSync(join(tmpdir(), 'nexus-arrows-'))
  roots.push(root)
  const manifest = { name: '@x/one', dependencies: { '@x/errors': '*' } }
  const all = { 'packages/one/package.json': JSON.stringify(manifest), ...files }
  mkdirSync(join(root, 'modules'))
  for (const [path, text] of Object.entries(all)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  const given = {
    packages: tables.packages ?? { '@x/one': ['@x/errors'] },
    folders: tables.folders ?? { '@x/one': { '.': ['high', 'low'], high: ['low'], low: [] } },
    free: tables.free ?? [],
    mostFiles: tables.mostFiles ?? 3,
    mostLines: tables.mostLines ?? 5,
  }
  // The checks are plain JavaScript, so that they run before anything is built.
  const problems: string = '../src/arrows/problems.mjs'
  const checks = (await import(problems)) as { arrowProblems: (root: string, tables: object) => string[] }
  return checks.arrowProblems(root, { ...given, free: new Set(given.free) })
}

/** A package that has nothing to complain about. */
const SOUND = {
  'packages/one/src/index.ts': "export * from './high/a.ts'\n",
  'packages/one/src/high/a.ts': "import '../low/b.ts'\nimport '@x/errors'\nimport 'node:fs'\n",
  'packages/one/src/low/b.ts': 'export {}\n',
}

describe('a repository', () => {
  it('that keeps to its tables has no problem', async () => {
    expect(await problemsOf(SOUND)).toEqual([])
  })

  it('has none but those of this one', async () => {
    const script = join(import.meta.dirname, '../src/check-arrows.mjs')
    const { stdout } = await promisify(execFile)(process.execPath, [script])
    expect(stdout).toBe('Arrows hold.\n')
  })
})

describe('a package', () => {
  it('needs a row', async () => {
    expect(await problemsOf(SOUND, { packages: {} })).toEqual([
      '@x/one has no row in arrows/packages.mjs: say what it may depend on',
    ])
  })

  it.each([
    ['import', "import { y } from '@x/two'\n"],
    ['import of a subpath', "import { y } from '@x/two/sub'\n"],
    ['import of a type', "import type { Y } from '@x/two'\n"],
    ['re-export', "export { y } from '@x/two'\n"],
    ['import at run time', "const y = await import('@x/two')\n"],
  ])('has no %s of another that its row does not name', async (_, text) => {
    expect(await problemsOf({ ...SOUND, 'packages/one/src/low/b.ts': text })).toEqual([
      'packages/one/src/low/b.ts imports @x/two, which @x/one may not',
    ])
  })

  it('declares what it imports', async () => {
    const files = { ...SOUND, 'packages/one/src/low/b.ts': "import 'yaml'\n" }
    expect(await problemsOf(files, { packages: { '@x/one': ['@x/errors', 'yaml'] } })).toEqual([
      'packages/one/src/low/b.ts imports yaml, which package.json does not declare',
    ])
  })

  it('declares nothing that its row does not name', async () => {
    expect(await problemsOf(SOUND, { packages: { '@x/one': [] } })).toEqual([
      '@x/one declares a dependency on @x/errors, which it may not have',
      'packages/one/src/high/a.ts imports @x/errors, which @x/one may not',
    ])
  })

  it('that publishes nothing may import what it likes', async () => {
    const files = { ...SOUND, 'packages/one/src/low/b.ts': "import '@x/two'\nimport '../high/a.ts'\n" }
    expect(await problemsOf(files, { free: ['@x/one'], packages: {}, folders: {} })).toEqual([])
  })

  it('may import anything in its tests', async () => {
    const files = { ...SOUND, 'packages/one/src/low/b.test.ts': "import '@x/two'\nimport '../high/a.ts'\n" }
    expect(await problemsOf(files)).toEqual([])
  })
})

describe('a folder', () => {
  it('needs a row', async () => {
    const files = { ...SOUND, 'packages/one/src/new/c.ts': 'export {}\n' }
    expect(await problemsOf(files)).toEqual([
      'packages/one/src/new has no row in arrows/folders.mjs: say what it may import',
    ])
  })

  it('needs a row when it lies within another', async () => {
    const files = { ...SOUND, 'packages/one/src/low/new/c.ts': 'export {}\n' }
    expect(await problemsOf(files)).toEqual([
      'packages/one/src/low/new has no row in arrows/folders.mjs: say what it may import',
    ])
  })

  it('whose package has no rows at all is a problem', async () => {
    expect(await problemsOf(SOUND, { folders: {} })).toEqual([
      '@x/one has no rows in arrows/folders.mjs: say what its folders may import',
    ])
  })

  it('has no row when it is gone', async () => {
    const folders = { '@x/one': { '.': ['high', 'low'], high: ['low'], low: [], old: [] } }
    expect(await problemsOf(SOUND, { folders })).toEqual([
      '@x/one has a row in arrows/folders.mjs for old, which is gone',
    ])
  })

  it.each([
    ['another folder', '../high/a.ts', 'high'],
    ['the root of the package', '../index.ts', '.'],
  ])('may not import %s that its row does not name', async (_, specifier, target) => {
    const files = { ...SOUND, 'packages/one/src/low/b.ts': `import '${specifier}'\n` }
    expect(await problemsOf(files)).toEqual([
      `packages/one/src/low/b.ts imports ${specifier}: low may not import ${target} (arrows/folders.mjs)`,
    ])
  })

  it('may not import itself by way of others: the table has no cycle', async () => {
    const folders = { '@x/one': { '.': ['high'], high: ['low'], low: ['high'] } }
    expect(await problemsOf(SOUND, { folders })).toEqual([
      'the rows of @x/one in arrows/folders.mjs allow a cycle: high → low → high',
    ])
  })

  it('holds a bounded number of sources, tests not counted', async () => {
    const low = (name: string): [string, string] => [`packages/one/src/low/${name}`, 'export {}\n']
    const three = { ...SOUND, ...Object.fromEntries(['c.ts', 'd.ts', 'c.test.ts'].map(low)) }
    expect(await problemsOf(three)).toEqual([])
    expect(await problemsOf({ ...three, ...Object.fromEntries([low('e.ts')]) })).toEqual([
      'packages/one/src/low holds 4 sources, and 3 are the most: divide it',
    ])
  })
})

describe('a file of src itself', () => {
  const files = { ...SOUND, 'packages/one/src/errors.ts': 'export {}\n' }
  const low = { ...files, 'packages/one/src/low/b.ts': "import '../errors.ts'\n" }
  const rows = { '.': ['high', 'low'], high: ['low'], low: [] as string[] }

  it('may be imported by a folder whose row names it, when it has a row of its own', async () => {
    const folders = { '@x/one': { ...rows, 'errors.ts': [], low: ['errors.ts'] } }
    expect(await problemsOf(low, { folders })).toEqual([])
  })

  it('is not imported by a folder that does not name it', async () => {
    expect(await problemsOf(low, { folders: { '@x/one': { ...rows, 'errors.ts': [] } } })).toEqual([
      'packages/one/src/low/b.ts imports ../errors.ts: low may not import errors.ts (arrows/folders.mjs)',
    ])
  })

  it('with a row of its own imports only what that names', async () => {
    const folders = { '@x/one': { ...rows, 'errors.ts': [] } }
    expect(await problemsOf({ ...files, 'packages/one/src/errors.ts': "import './low/b.ts'\n" }, { folders })).toEqual([
      'packages/one/src/errors.ts imports ./low/b.ts: errors.ts may not import low (arrows/folders.mjs)',
    ])
  })

  it('and a folder may not import each other', async () => {
    const folders = { '@x/one': { ...rows, 'errors.ts': ['low'], low: ['errors.ts'] } }
    expect(await problemsOf(low, { folders })).toEqual([
      'the rows of @x/one in arrows/folders.mjs allow a cycle: low → errors.ts → low',
    ])
  })
})

describe('a source', () => {
  it('has a bounded number of lines', async () => {
    const lines = (count: number): Record<string, string> => ({
      ...SOUND,
      'packages/one/src/low/b.ts': '//\n'.repeat(count),
    })
    expect(await problemsOf(lines(5))).toEqual([])
    expect(await problemsOf(lines(6))).toEqual(['packages/one/src/low/b.ts has 6 lines, and 5 are the most: divide it'])
  })
})

describe('a pointer', () => {
  const pointing = (pointer: string): Record<string, string> => ({
    ...SOUND,
    'docs/page.md': '# Page\n',
    'packages/one/src/low/b.ts': `/** @see ${pointer} */\n`,
  })

  it.each(['docs/page.md', 'docs/page.md#page', 'https://example.com/page', 'RFC 3720, B.4', 'openLow'])(
    'to %s is fine',
    async (pointer) => {
      expect(await problemsOf(pointing(pointer))).toEqual([])
    },
  )

  it.each(['docs/gone.md', './docs/gone.md', '../page.md', '/etc/page.md'])('to %s leads nowhere', async (pointer) => {
    expect(await problemsOf(pointing(pointer))).toEqual([
      `packages/one/src/low/b.ts points to ${pointer}, which is not in the repository`,
    ])
  })

  it('never leads to a specification that readers do not have', async () => {
    // In two pieces, so that this very file passes the check.
    const pointer = ['@see', 'spec'].join(' ')
    const files = { ...pointing('spec 60, Keys'), 'packages/one/test/c.test.ts': `// ${pointer} 60\n` }
    expect(await problemsOf(files)).toEqual([
      `packages/one/src/low/b.ts has "${pointer}": point to a page of docs/`,
      `packages/one/test/c.test.ts has "${pointer}": point to a page of docs/`,
    ])
  })

  it('is followed in packages that publish nothing, too', async () => {
    expect(await problemsOf(pointing('docs/gone.md'), { free: ['@x/one'] })).toHaveLength(1)
  })
})
