import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const root = join(import.meta.dirname, '..', '..', '..')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Record<string, string> }

/** Paths from the root of the repository, as they stand in code spans. A new page that maps the sources belongs here. */
const PAGES = ['CONTRIBUTING.md', 'SECURITY.md', 'docs/architecture.md']

const PATH = /`((?:packages|modules|docs|configs|\.ci|\.changeset)\/[\w./-]*)`/g
const SCRIPT = /`npm run ([\w:-]+)/g

describe.each(PAGES)('%s', (page) => {
  const text = readFileSync(join(root, page), 'utf8')

  it('names no file that is not there', () => {
    const named = [...text.matchAll(PATH)].map(([, path = '']) => path)
    expect(named.length).toBeGreaterThan(0)
    expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([])
  })

  it('names no command that is not there', () => {
    const named = [...text.matchAll(SCRIPT)].map(([, name = '']) => name)
    expect(named.filter((name) => manifest.scripts[name] === undefined)).toEqual([])
  })
})

// A plain script, without types.
const table: string = '../src/arrows/packages.mjs'
const { PACKAGES } = (await import(table)) as { PACKAGES: Record<string, unknown> }

describe('the map of the packages', () => {
  const text = readFileSync(join(root, 'docs/architecture.md'), 'utf8')
  const drawing = readFileSync(join(root, 'docs/architecture.svg'), 'utf8')

  it.each(Object.keys(PACKAGES).map((name) => name.replace('@nexus/', '')))('has %s', (name) => {
    const isBackend = name.startsWith('objectstore-') && existsSync(join(root, 'modules', name))
    expect(text).toContain(isBackend ? '`modules/`' : `\`packages/${name}\``)
    expect(drawing).toContain(isBackend ? 'modules/objectstore-*' : name)
  })
})
