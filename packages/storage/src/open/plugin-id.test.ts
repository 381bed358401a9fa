import { describe, expect, it } from 'vitest'
import { pluginDatabasePath, pluginOfDatabase, validateAgentId, validatePluginId } from './plugin-id.ts'

describe('validatePluginId', () => {
  it.each([
    ['nexus.tool.shell', ['nexus.tool.shell']],
    ['nexus.agent.sub/researcher', ['nexus.agent.sub', 'researcher']],
    ['a', ['a']],
    ['A-1_b/2/3', ['A-1_b', '2', '3']],
    ['store', ['store']],
    ['my.store.db', ['my.store.db']],
    ['console.log', ['console.log']],
    ['a'.repeat(128), ['a'.repeat(128)]],
  ])('splits %s', (id, segments) => {
    expect(validatePluginId(id)).toEqual(segments)
  })

  it.each([
    '',
    '.',
    '..',
    '.hidden',
    'a..b',
    'a.',
    '../x',
    'a/../b',
    'a/',
    '/a',
    'a//b',
    'a\\b',
    'a b',
    'a\0b',
    'a\nb',
    'é',
    '-a',
    '_a',
    'a:b',
    'CON',
    'nul.txt',
    'a/com1',
    'a/store.db',
    'a/STORE.DB-wal',
    'store.db',
    'a'.repeat(129),
    `${'a/'.repeat(260)}a`,
  ])('refuses %j before any path is built', (id) => {
    expect(() => validatePluginId(id)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  })

  it.each([undefined, null, 1, {}])('refuses %j, which is no string', (id) => {
    expect(() => validatePluginId(id as never)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  })
})

describe('validateAgentId', () => {
  it('takes one segment', () => {
    expect(validateAgentId('team.writer-1')).toBe('team.writer-1')
  })

  it.each(['a/b', '..', '', 'NUL', '__proto__'])('refuses %j', (id) => {
    expect(() => validateAgentId(id)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  })
})

describe('the path of a database', () => {
  it.each(['p', 'nexus.tool.shell', 'nexus.agent.sub/researcher', 'a/b/c'])('leads back to its plugin, %s', (id) => {
    expect(pluginDatabasePath(id)).toBe(`plugins/${id}/store.db`)
    expect(pluginOfDatabase(pluginDatabasePath(id))).toBe(id)
  })

  it.each([
    'plugins/store.db',
    'plugins//store.db',
    'plugins/p/store.db-wal',
    'plugins/p/x/',
    'plugins/../store.db',
    'files/p/store.db',
    'plugins/p/store.db/store.db',
    'x/plugins/p/store.db',
    '/plugins/p/store.db',
  ])('is not %s', (path) => {
    expect(pluginOfDatabase(path)).toBeUndefined()
  })

  it('is not made for a bad id', () => {
    expect(() => pluginDatabasePath('../x')).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  })
})
