import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { register, unregister } from '@nexus/objectstore'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ConfigError, type ConfigProblem } from './document/problem.ts'
import type { EngineConfig } from './engine-config.ts'
import { configFromObject, loadConfigFile, parseConfig, type ParseConfigOptions } from './load.ts'

const host: ParseConfigOptions = { home: '/home/me', cwd: '/srv', env: {} }
const load = async (text: string | Uint8Array, options: ParseConfigOptions = {}): Promise<EngineConfig> =>
  (await parseConfig(text, { ...host, ...options })).config

async function failure(text: string | Uint8Array, options: ParseConfigOptions = {}): Promise<ConfigError> {
  const error: unknown = await parseConfig(text, { ...host, ...options }).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(ConfigError)
  return error as ConfigError
}

const problems = async (text: string, options: ParseConfigOptions = {}): Promise<readonly ConfigProblem[]> =>
  (await failure(text, options)).problems

const unused = (): never => {
  throw new Error('a test backend is never opened')
}
beforeAll(() => register('test-store', unused))
afterAll(() => void unregister('test-store'))

describe('defaults', () => {
  it.each(['', '# nothing but a comment\n', '{}', '---\n...\n', 'core:\njournal:\n  fsync:\nplugins:\n', '\uFEFF'])(
    'are what %j gives',
    async (text) => {
      expect(await load(text)).toEqual({
        core: {
          logLevel: 'info',
          tickIntervalMs: 1000,
          agentId: '',
          sessions: {
            root: '/home/me/.nexus/sessions',
            retentionMs: 30 * 86_400_000,
            retentionExplicit: false,
            idFormat: 'timestamp',
            restart: 'refire',
            keepStale: { count: 1, days: 7 },
          },
          storage: {
            root: '/home/me/.nexus',
            busyTimeoutMs: 5000,
            cacheSizeKb: 2048,
            poolMaxIdle: 2,
            poolMaxOpen: 4,
            secureDelete: false,
          },
          objectStore: undefined,
        },
        journal: { fsync: 'turn-boundary', retainDays: 30, rotateBytes: 4 * 2 ** 20, excludeEvents: ['core.tick'] },
        engine: { shutdown: { drainTimeoutMs: 30_000 } },
        plugins: { active: undefined, blocks: {} },
      })
    },
  )

  it('of the object store are those of the documentation', async () => {
    const { core } = await load('core: {object_store: {backend: test-store, bucket: b}}')
    expect(core.objectStore).toEqual({
      backend: 'test-store',
      bucket: 'b',
      prefix: '',
      region: '',
      endpoint: '',
      credentialsFile: '',
      failurePolicy: 'degrade',
      options: {},
      staleLocal: 'set-aside',
      onLost: 'stop',
      onMixed: 'auto',
      acceptEmpty: false,
      minRateKibS: 16,
      layout: 'mirror',
      ownership: 'detect',
      keep: { generations: 64, days: 7, atMost: 1000 },
      verifyContent: 'auto',
      migrate: 'ask',
      ttlMs: 0,
    })
  })
})

describe('values', () => {
  it('are read with their units', async () => {
    const config = await load(`
core:
  tick_interval: 250ms
  sessions: {root: ~/s, retention: 0}
  storage: {root: data}
  object_store: {backend: test-store, bucket: ~/b, prefix: a/~/b, credentials_file: ~/key.json}
journal: {rotate_size_mb: 0.5, exclude_events: []}
engine: {shutdown: {drain_timeout: 1m30s}}
`)
    expect(config.core.tickIntervalMs).toBe(250)
    expect(config.core.sessions).toMatchObject({ root: '/home/me/s', retentionMs: 0, retentionExplicit: true })
    expect(config.core.storage.root).toBe('/srv/data')
    expect(config.core.objectStore).toMatchObject({
      bucket: '~/b',
      prefix: 'a/~/b',
      credentialsFile: '/home/me/key.json',
    })
    expect(config.journal).toMatchObject({ rotateBytes: 2 ** 19, excludeEvents: [] })
    expect(config.engine.shutdown.drainTimeoutMs).toBe(90_000)
  })

  it('of the pool stay below its size without being written', async () => {
    expect((await load('core: {storage: {pool_max_open: 1}}')).core.storage).toMatchObject({
      poolMaxIdle: 1,
      poolMaxOpen: 1,
    })
  })

  it('of plugins and driver options are handed on as written', async () => {
    const config = await load(`
core: {object_store: {backend: test-store, bucket: b, options: {a: {b: [1, two, ~, true, 1.5]}}}}
plugins:
  active: [nexus.memory]
  nexus.memory: {size: 9007199254740991, id: "12345678901234567890", toString: x, when: 2026-01-01, no: no}
  other:
`)
    expect(config.core.objectStore?.options).toEqual({ a: { b: [1, 'two', null, true, 1.5] } })
    expect(config.plugins.active).toEqual(['nexus.memory'])
    expect(config.plugins.blocks).toEqual({
      'nexus.memory': { size: 2 ** 53 - 1, id: '12345678901234567890', toString: 'x', when: '2026-01-01', no: 'no' },
      other: null,
    })
  })

  it('may repeat through aliases', async () => {
    const { plugins } = await load('plugins:\n  a: &a {x: [1, 2]}\n  b: *a\n  c: {d: *a}\n')
    expect(plugins.blocks).toEqual({ a: { x: [1, 2] }, b: { x: [1, 2] }, c: { d: { x: [1, 2] } } })
  })

  it.each([
    ['core: {log_level: loud}', /^must be one of trace, debug, info, warn, error, not "loud"/],
    ['core: {log_level: 5}', /must be one of/],
    ['journal: {fsync: turn_boundary}', /did you mean turn-boundary\?/],
    ['core: {tick_interval: 5}', /must be a duration such as/],
    ['core: {tick_interval: 1ms}', /must be from 10ms to 24d/],
    ['core: {tick_interval: 30d}', /must be from 10ms to 24d/],
    ['core: {sessions: {retention: -1d}}', /must be a duration/],
    ['core: {sessions: {retention: forever}}', /must be a duration/],
    ['core: {sessions: {root: ""}}', /is empty/],
    ['core: {sessions: {root: ~bob/x}}', /only ~ and ~\//],
    ['core: {sessions: {root: "a\\0b"}}', /NUL/],
    ['core: {storage: {secure_delete: yes}}', /must be true or false, not "yes"/],
    ['core: {sessions: []}', /must be a map of keys/],
    ['core: 5', /must be a map of keys, not 5/],
    ['core: {agent_id: a/b}', /names a directory/],
    ['core: {agent_id: 7}', /must be text; quote it/],
    ['core: {storage: {busy_timeout_ms: 1.5}}', /must be a whole number from 0 to 600000/],
    ['core: {storage: {busy_timeout_ms: -1}}', /must be a whole number/],
    ['core: {storage: {busy_timeout_ms: "5000"}}', /must be a whole number/],
    ['core: {storage: {busy_timeout_ms: .inf}}', /must be a whole number/],
    ['core: {storage: {pool_max_idle: 5}}', /must be at most core\.storage\.pool_max_open/],
    ['journal: {rotate_size_mb: 0}', /must be a number from/],
    ['journal: {exclude_events: core.tick}', /must be a list of event types/],
    ['journal: {exclude_events: [""]}', /is empty; the list holds event types/],
    ['journal: {exclude_events: [agent.turn.end]}', /is always journaled/],
    ['plugins: {active: memory}', /must be a list of plugin ids/],
    ['plugins: {memory: 5}', /must be a map of keys, not 5/],
    ['plugins: {memory: []}', /must be a map of keys/],
    ['- a\n- b', /must be a map of keys at the top level/],
    ['just text', /must be a map of keys at the top level/],
  ])('%j is refused', async (text, message) => {
    expect((await problems(text)).map((problem) => problem.message)).toEqual([expect.stringMatching(message)])
  })
})

describe('a misspelled key', () => {
  it('is refused at every depth, all in one message with path, line, column and what was meant', async () => {
    const error = await failure(
      'core:\n  object_stor:\n    backend: s3\n  sessions:\n    rot: x\njournal:\n  fsnyc: none\nengine: {shutdown: {drain: 1s}}\nbucket: b\nxyz: 1\n',
      { path: 'nexus.yaml' },
    )
    expect(error.message.split('\n')).toEqual([
      'nexus.yaml has 6 problems:',
      '  nexus.yaml:2:3: core.object_stor: unknown key; did you mean core.object_store?',
      '  nexus.yaml:5:5: core.sessions.rot: unknown key; did you mean core.sessions.root?',
      '  nexus.yaml:7:3: journal.fsnyc: unknown key; did you mean journal.fsync?',
      '  nexus.yaml:8:21: engine.shutdown.drain: unknown key',
      '  nexus.yaml:9:1: bucket: unknown key; did you mean core.object_store.bucket?',
      '  nexus.yaml:10:1: xyz: unknown key',
    ])
    expect(error.code).toBe('INVALID_ARGUMENT')
  })

  it.each(['toString', 'hasOwnProperty', 'valueOf', '__defineGetter__'])(
    'may be named like %s of Object',
    async (key) => {
      expect(await problems(`core:\n  ${key}: 1\n`)).toEqual([
        expect.objectContaining({ path: ['core', key], message: expect.stringMatching(/^unknown key/) }),
      ])
    },
  )

  it('is reported beside wrong values and broken rules', async () => {
    const found = await problems('core:\n  log_level: x\n  object_store: {bucket: b}\n  nope: 1\n')
    expect(found.map(({ path }) => path.join('.'))).toEqual(['core.log_level', 'core.object_store.bucket', 'core.nope'])
  })
})

describe('the text', () => {
  it('stays as it was given, byte for byte', async () => {
    const text = '\uFEFF# ü\r\ncore:\r\n  agent_id: "${ID}"\r\n'
    const loaded = await parseConfig(Buffer.from(text), { ...host, env: { ID: 'a1' } })
    expect(Buffer.from(loaded.text)).toEqual(Buffer.from(text))
    expect(loaded.config.core.agentId).toBe('a1')
  })

  it('has its lines counted with CRLF and after a byte order mark', async () => {
    const [problem] = await problems('\uFEFFcore:\r\n  nope: 1\r\n')
    expect(problem?.position).toEqual({ line: 2, column: 3 })
    const [first] = await problems('\uFEFFnope: 1\r\n')
    expect(first?.position).toEqual({ line: 1, column: 1 })
  })

  it.each([
    ['duplicate keys', 'core: {}\njournal: {}\ncore: {}\n', /core: stands here twice; first at line 1/, 3],
    [
      'duplicate keys in a plugin',
      'plugins:\n  a:\n    x: 1\n    "x": 2\n',
      /plugins.a.x: stands here twice; first at line 3/,
      4,
    ],
    ['two documents', 'core: {}\n---\ncore: {}\n', /more than one YAML document/, 2],
    ['a constructing tag', 'plugins:\n  a: !!js/function "() => 1"\n', /tag/i, 2],
    ['a private tag', 'plugins:\n  a: !secret x\n', /tag/i, 2],
    ['a binary tag', 'plugins:\n  a: {b: !!binary aGk=}\n', /tag/i, 2],
    ['an old version', '%YAML 1.1\n---\ncore: {}\n', /only YAML 1.2/, 1],
    ['a merge key', 'plugins:\n  a: &a {x: 1}\n  b:\n    <<: *a\n', /merge key/, 4],
    ['an alias without anchor', 'plugins:\n  a: *b\n', /\*b has no anchor/, 2],
    ['an anchor inside itself', 'plugins:\n  a: &a {b: *a}\n', /inside its own anchor/, 2],
    ['an anchor defined twice', 'plugins:\n  a: &a {x: 1}\n  b: &a {x: 2}\n', /again/, 3],
    ['a key that is a map', 'plugins:\n  ? {a: 1}\n  : 2\n', /no plain name/, 2],
    [
      'an integer that loses digits',
      'plugins:\n  a: {id: 12345678901234567890}\n',
      /12345678901234567890 is too large .* quote it/,
      2,
    ],
    ['a negative one', 'core: {storage: {busy_timeout_ms: -9007199254740993}}', /-9007199254740993 is too large/, 1],
    ['an open bracket', 'core: [\njournal: {}\n', /./, 2],
    ['a tab', 'core:\n\tlog_level: info\n', /[Tt]ab/, 2],
  ])('%s: refused with the line', async (_, text, message, line) => {
    const error = await failure(text)
    expect(error.message).toMatch(message)
    expect(error.problems[0]?.position?.line).toBe(line)
  })

  it.each(['__proto__', 'constructor', 'prototype'])(
    'the key %s is refused at every depth, and pollutes nothing',
    async (key) => {
      for (const text of [
        `${key}: {polluted: 1}`,
        `core:\n  ${key}: {polluted: 1}`,
        `"${key}": {polluted: 1}`,
        `plugins:\n  a:\n    deep: [{${key}: {polluted: 1}}]`,
        `core: {object_store: {backend: test-store, bucket: b, options: {${key}: {polluted: 1}}}}`,
      ]) {
        expect((await failure(text)).message).toContain(`has the key "${key}", which is never accepted`)
      }
      expect(({} as { polluted?: number }).polluted).toBeUndefined()
    },
  )

  it('with a bomb of aliases fails fast, once', async () => {
    let text = `plugins:\n${level('a', 'x')}`
    for (const [name, of] of ['ba', 'cb', 'dc', 'ed', 'fe', 'gf', 'hg', 'ih']) text += level(name!, `*${of}`)
    expect((await problems(text)).filter(({ message }) => message.includes('aliases expand'))).toHaveLength(1)
  })

  it('with a bomb of merge keys fails as well', async () => {
    let text = 'plugins:\n  a: &a {x: 1}\n'
    for (let i = 0; i < 30; i++) text += `  b${i}:\n    <<: [*a, *a, *a]\n`
    expect((await failure(text)).message).toMatch(/merge key/)
  })

  it.each([
    ['flow', '['.repeat(100_000)],
    ['block', `${'- '.repeat(50_000)}x`],
    ['closed', `plugins: {a: {b: ${'['.repeat(200)}${']'.repeat(200)}}}`],
  ])('nested without end (%s) is refused instead of overflowing the stack', async (_, text) => {
    expect((await failure(text)).problems).not.toEqual([])
  })

  it('above 1 MiB is refused, whatever it holds', async () => {
    expect((await failure('#'.repeat(2 ** 20 + 1))).message).toMatch(/is 1048577 bytes/)
    expect((await failure(Buffer.alloc(2 ** 20 + 1))).message).toMatch(/is 1048577 bytes/)
    expect(await load('#'.repeat(2 ** 20))).toBeDefined()
  })

  it('that is not UTF-8 is refused', async () => {
    expect((await failure(Buffer.from('core: {}', 'utf16le').subarray(1))).message).toMatch(/one problem/)
    expect((await failure(Uint8Array.of(0x61, 0x3a, 0x20, 0xff, 0xfe))).message).toMatch(/not UTF-8/)
  })

  it('with half of a surrogate pair is refused: the session could not keep it', async () => {
    expect((await failure('plugins: {a: {b: "\ud83d"}}')).message).toMatch(/surrogate/)
    await expect(configFromObject({ plugins: { a: { b: '\ud83d' } } }, host)).rejects.toThrow(/surrogate/)
  })

  it('that stumbles on every line is reported briefly', async () => {
    const error = await failure('a: ]\n'.repeat(10_000))
    expect(error.problems.length).toBeLessThanOrEqual(20)
  })
})

describe('the environment', () => {
  const env = { NAME: 'n', BUSY: '77', FLAG: 'false', SECRET: 'hunter2 !' }

  it('fills values at every depth, and makes numbers and truth values where the schema wants them', async () => {
    const config = await load(
      'core:\n  storage: {busy_timeout_ms: "${BUSY}", secure_delete: "${FLAG}"}\n  agent_id: a-${BUSY}\nplugins:\n  p: {list: ["${NAME}"], port: "${BUSY}"}\n',
      { env },
    )
    expect(config.core.storage.busyTimeoutMs).toBe(77)
    expect(config.core.storage.secureDelete).toBe(false)
    expect(config.core.agentId).toBe('a-77')
    expect(config.plugins.blocks).toEqual({ p: { list: ['n'], port: '77' } })
  })

  it('does not reach keys', async () => {
    expect((await load('plugins:\n  p: {"${NAME}": 1}\n', { env })).plugins.blocks).toEqual({ p: { '${NAME}': 1 } })
  })

  it('never shows up in a message or in the kept text', async () => {
    for (const text of [
      'core: {log_level: "${SECRET}"}',
      'core: {agent_id: "${SECRET}"}',
      'core: {tick_interval: "${SECRET}"}',
      'core: {storage: {busy_timeout_ms: "${SECRET}"}}',
    ]) {
      const { message } = await failure(text, { env })
      expect(message).not.toContain('hunter2')
      expect(message).toContain('${SECRET}')
    }
    expect((await parseConfig('plugins: {p: {key: "${SECRET}"}}', { ...host, env })).text).not.toContain('hunter2')
  })

  it.each([
    ['a backend that is not registered', 'backend: "${SECRET}", bucket: b', /not registered: \$\{SECRET\}/],
    ['a backend with one near it', 'backend: "${NEAR}", bucket: b', /not registered: \$\{NEAR\}\. Registered:/],
    [
      'a prefix that is no key',
      'backend: test-store, bucket: b, prefix: "a//${SECRET}"',
      /what a\/\/\$\{SECRET\} gives/,
    ],
    ['a word', 'backend: test-store, bucket: b, layout: "${SECRET}"', /what \$\{SECRET\} gives is not/],
  ])('is not shown by the problem of %s', async (_, block, said) => {
    const { message } = await failure(`core: {object_store: {${block}}}`, { env: { ...env, NEAR: 'test-stora' } })
    expect(message).toMatch(said)
    expect(message).not.toMatch(/hunter2|test-stora/)
  })

  it('is missed with the line, and with the way to give a default', async () => {
    const [problem] = await problems('plugins:\n  p:\n    key: ${NOPE}\n', { env })
    expect(problem).toMatchObject({ position: { line: 3, column: 10 }, path: ['plugins', 'p', 'key'] })
    expect(problem?.message).toContain('${NOPE:-...}')
  })

  it('in an unquoted flow value is explained', async () => {
    expect((await failure('plugins: {p: {key: ${NAME}}}', { env })).message).toMatch(/quote values with "\$\{"/)
  })
})

describe('the old name of a key', () => {
  it.each([
    [true, 'refire'],
    [false, 'discard'],
  ])('resume_partial: %s is read as restart: %s, with a warning', async (old, restart) => {
    const { config, warnings } = await parseConfig(`core: {sessions: {resume_partial: ${old}}}`, host)
    expect(config.core.sessions).toMatchObject({ restart })
    expect(config.core.sessions).not.toHaveProperty('resumePartial')
    expect(warnings).toEqual([
      `core.sessions.resume_partial is the old name of core.sessions.restart; write core.sessions.restart: ${restart}`,
    ])
    expect((await parseConfig(`core: {sessions: {restart: ${restart}}}`, host)).warnings).toEqual([])
  })

  it('beside the new one is refused: which of them counts can not be told', async () => {
    const found = await problems('core: {sessions: {restart: refire, resume_partial: false}}')
    expect(found.map(({ path }) => path.at(-1))).toEqual(['resume_partial'])
  })
})

describe('what is not built yet', () => {
  it.each([
    [
      'core: {object_store: {backend: test-store, bucket: b, migrate: auto}}',
      /auto is not available in this version; write ask/,
    ],
  ])('%j is refused as such', async (text, message) => {
    expect((await problems(text)).map((problem) => problem.message)).toEqual([expect.stringMatching(message)])
  })
})

describe('what is kept of a versioned session', () => {
  const inStore = (text: string): string => `core: {object_store: {backend: test-store, bucket: b, ${text}}}`

  it('is read in numbers, days and durations', async () => {
    const { core } = await load(inStore('keep: {generations: 100, days: 0.5, at_most: 200}, ttl: 30d'))
    expect(core.objectStore).toMatchObject({
      keep: { generations: 100, days: 0.5, atMost: 200 },
      ttlMs: 30 * 86_400_000,
    })
  })

  it.each([
    ['keep: {generations: 1}', /whole number from 2 to/],
    ['keep: {at_most: 1}', /whole number from 2 to/],
    ['keep: {days: -1}', /number from 0 to/],
    ['keep: {weeks: 2}', /unknown|not a key|no such/i],
    ['ttl: soon', /must be a duration/],
  ])('refuses %s', async (text, message) => {
    expect((await problems(inStore(text))).map((problem) => problem.message)).toEqual([expect.stringMatching(message)])
  })
})

describe('plugins.active', () => {
  it('tells a list of none from no list', async () => {
    expect((await load('plugins: {active: []}')).plugins.active).toEqual([])
    expect((await load('plugins: {active: }')).plugins.active).toBeUndefined()
  })
})

describe('the object store', () => {
  it.each([
    ['backend: test-store', ['bucket']],
    ['bucket: b', ['bucket']],
    ['failure_policy: degrade', ['failure_policy']],
    ['region: r, options: {a: 1}, on_lost: stop', ['region', 'options', 'on_lost']],
    ['backend: test-store, bucket: b, prefix: /a', ['prefix']],
    ['backend: test-store, bucket: b, prefix: a/', ['prefix']],
    ['backend: test-store, bucket: b, prefix: a//b', ['prefix']],
    ['backend: test-store, bucket: b, prefix: a/../b', ['prefix']],
    ['backend: test-store, bucket: b, failure_policy: strickt', ['failure_policy']],
    ['backend: test-store, bucket: b, layout: versioned, on_lost: overwrite', ['on_lost']],
    ['backend: test-store, bucket: b, layout: versioned, stale_local: keep', ['stale_local']],
    ['backend: test-store, bucket: b, ownership: refuse', ['ownership']],
    ['backend: test-store, bucket: b, layout: versioned, ownership: detect', ['ownership']],
    ['backend: test-store, bucket: b, ownership: claim', ['ownership']],
    ['backend: test-store, bucket: b, layout: mirror, ownership: lazy', ['ownership']],
    ['backend: test-store, bucket: b, options: []', ['options']],
    ['backend: test-store, bucket: 5', ['bucket']],
  ])('{%s} is refused naming the key', async (block, keys) => {
    const found = await problems(`core: {object_store: {${block}}}`)
    expect(found.map(({ path }) => path.join('.'))).toEqual(keys.map((key) => `core.object_store.${key}`))
  })

  it('is undefined while everything about it is empty, as a profile filled from the environment leaves it', async () => {
    const text = 'core: {object_store: {backend: "${B:-}", bucket: "${C:-}", region: "", options: {}, endpoint: }}'
    expect((await load(text)).core.objectStore).toBeUndefined()
  })

  it('with a backend that nobody registered is refused, saying which there are and what was meant', async () => {
    const error = await failure('core: {object_store: {backend: test-stor, bucket: b}}')
    expect(error.code).toBe('DRIVER_MISSING')
    expect(error.message).toMatch(/not registered: test-stor\. Did you mean test-store\? Registered: .*test-store/)
    const other = await failure('core: {object_store: {backend: azure, bucket: b}, nope: 1}')
    expect(other.code).toBe('INVALID_ARGUMENT')
  })

  it('needs neither name nor bucket when the embedder brings the backend', async () => {
    const { core } = await load('core: {object_store: {failure_policy: strict, prefix: p}}', { backendGiven: true })
    expect(core.objectStore).toMatchObject({ backend: '', failurePolicy: 'strict', prefix: 'p' })
    expect((await load('', { backendGiven: true })).core.objectStore).toMatchObject({ failurePolicy: 'degrade' })
    const refused = await problems('core: {object_store: {prefix: /p}}', { backendGiven: true })
    expect(refused).toHaveLength(1)
  })
})

describe('configFromObject', () => {
  it('keeps the object as YAML that loads to the same', async () => {
    const input = {
      core: { log_level: 'warn', sessions: { root: '/s', retention: 0 } },
      plugins: {
        active: ['a'],
        a: { text: 'yes', digits: '007', multi: 'a\nb: c\n', n: 1.5, none: null, list: [{ x: true }] },
      },
    } as const
    const loaded = await configFromObject(input, host)
    expect(loaded.config.plugins.blocks).toEqual({ a: input.plugins.a })
    expect(loaded.config.core.sessions).toMatchObject({ root: '/s', retentionMs: 0, retentionExplicit: true })
    expect(await load(loaded.text)).toEqual(loaded.config)
    expect(loaded.problemAt(['core'], 'is odd')).toEqual({ path: ['core'], message: 'is odd' })
  })

  it('leaves undefined out and repeats shared objects', async () => {
    const shared = { x: 1 }
    const { config, text } = await configFromObject(
      { core: undefined, plugins: { a: { one: shared, two: shared, not: undefined } } } as never,
      host,
    )
    expect(config.plugins.blocks).toEqual({ a: { one: { x: 1 }, two: { x: 1 } } })
    expect(text).toBe('plugins:\n  a:\n    one:\n      x: 1\n    two:\n      x: 1\n')
  })

  it('names a wrong key without a made-up line', async () => {
    await expect(configFromObject({ core: { log_levl: 'info' } } as never, host)).rejects.toThrow(
      'configuration has one problem:\n  core.log_levl: unknown key; did you mean core.log_level?',
    )
  })

  it.each([
    ['a function', { plugins: { a: { f: () => 1 } } }, /plugins\.a\.f: is a function/],
    ['a class instance', { plugins: { a: { d: new Date(0) } } }, /plugins\.a\.d: is an instance of a class/],
    ['an inherited prototype', { plugins: { a: Object.create({ x: 1 }) } }, /plugins\.a: is an instance/],
    ['a big integer', { plugins: { a: { n: 2n ** 70n } } }, /too large/],
    ['an own __proto__', { plugins: { a: JSON.parse('{"__proto__": 1}') } }, /never accepted/],
    ['no object', 'text', /must be a map/],
    ['a list', [1], /must be a map/],
  ])('refuses %s', async (_, input, message) => {
    await expect(configFromObject(input as never, host)).rejects.toThrow(message)
  })

  it('refuses a cycle', async () => {
    const block: Record<string, unknown> = {}
    block.self = { block }
    await expect(configFromObject({ plugins: { a: block } }, host)).rejects.toThrow(
      /plugins\.a\.self\.block: contains itself/,
    )
  })
})

describe('loadConfigFile', () => {
  let dir: string
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'nexus-config-'))
  })
  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  it('reads a file, names it in problems, and takes the profile from its name', async () => {
    writeFileSync(join(dir, 'prod.eu.yaml'), 'core: {log_level: debug}\n')
    const loaded = await loadConfigFile('prod.eu.yaml', { ...host, cwd: dir })
    expect(loaded).toMatchObject({
      path: join(dir, 'prod.eu.yaml'),
      profile: 'prod.eu',
      text: 'core: {log_level: debug}\n',
    })
    expect(loaded.problemAt(['core', 'log_level'], 'is odd').position).toEqual({ line: 1, column: 8 })
    writeFileSync(join(dir, 'bad.yaml'), 'nope: 1\n')
    await expect(loadConfigFile('~/bad.yaml', { ...host, home: dir })).rejects.toThrow(
      `${join(dir, 'bad.yaml')}:1:1: nope`,
    )
  })

  it('says what is wrong with a path that is no readable file', async () => {
    await expect(loadConfigFile(join(dir, 'none.yaml'))).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await expect(loadConfigFile(dir)).rejects.toMatchObject({ code: 'LOCAL_IO' })
  })

  it('reads no more than a little over the limit', async () => {
    await expect(loadConfigFile('/dev/zero')).rejects.toThrow(/at most 1048576 are read/)
  })
})

function level(name: string, of: string): string {
  return `  ${name}: &${name} [${Array.from({ length: 9 }, () => of).join(', ')}]\n`
}
