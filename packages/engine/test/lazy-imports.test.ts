import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const STATIC_IMPORT = /^(?:import|export)\s(?!type\b)[^;]*?from '([^']+)'|^import '([^']+)'/gm

/** Packages that loading a module loads before its first line runs, found by following relative imports. */
function staticallyLoaded(entry: URL): Set<string> {
  const packages = new Set<string>()
  const seen = new Set<string>()
  const visit = (module: URL): void => {
    if (seen.has(module.href)) return
    seen.add(module.href)
    for (const [, from, bare] of readFileSync(fileURLToPath(module), 'utf8').matchAll(STATIC_IMPORT)) {
      const name = (from ?? bare) as string
      if (name.startsWith('.')) visit(new URL(name, module))
      else packages.add(name)
    }
  }
  visit(entry)
  return packages
}

describe('importing the engine', () => {
  it('loads no YAML parser, schema library, logger, nor what runs a session: they come when they are needed', () => {
    const loaded = staticallyLoaded(new URL('../src/index.ts', import.meta.url))
    expect([...loaded].filter((name) => !name.startsWith('node:'))).toEqual([
      '@nexus/errors',
      '@nexus/durability/events',
      '@nexus/host',
      '@nexus/durability/names',
    ])
  })

  it('loads as little with the names and events of the durability package', () => {
    const names = staticallyLoaded(new URL('../../durability/src/names.ts', import.meta.url))
    expect([...names].filter((name) => !name.startsWith('node:'))).toEqual(['@nexus/host', '@nexus/errors'])
    const events = staticallyLoaded(new URL('../../durability/src/events/table.ts', import.meta.url))
    expect([...events]).toEqual([])
  })

  it('would be found out: reading a configuration and running a session do load them', () => {
    const loaded = staticallyLoaded(new URL('../src/config/read-config.ts', import.meta.url))
    expect([...loaded]).toEqual(expect.arrayContaining(['yaml', 'valibot']))
    const running = staticallyLoaded(new URL('../src/run-session.ts', import.meta.url))
    expect([...running]).toEqual(expect.arrayContaining(['@nexus/journal', '@nexus/storage', '@nexus/durability']))
  })
})
