import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sessionTreeWriters } from '@nexus/engine'
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  announcesWrites,
  checkRawWriters,
  explainVerdict,
  findRawWriters,
  judgeWriters,
  type WriterRow,
} from './index.ts'

// Everything that runs inside an engine and could hold a path into a session tree: the engine, the packages that own a
// part of the tree, the command line with its demo plugins, and plugins. Backend modules only ever get paths in staging.
const SCANNED = [
  'packages/engine/src',
  'packages/durability/src',
  'packages/host/src',
  'packages/journal/src',
  'packages/blobs/src',
  'packages/storage/src',
  'packages/cli/src',
  'packages/plugins/src',
]

// What the check can't see, and must not be trusted for: bytes that go through a descriptor opened elsewhere, what a
// third-party library or a child process writes, and a file with one announced and one silent write, which passes.

const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url))

const row = (source: string): WriterRow => ({ source, why: 'because' })
const callsIn = (text: string, file = 'plugin.ts'): string[] => findRawWriters(text, file).map(({ call }) => call)

describe('the sources of this repository', () => {
  it('announce every write under a session tree, or say in sessionTreeWriters() why not', async () => {
    expect(await checkRawWriters({ root: REPOSITORY, sources: SCANNED, writers: sessionTreeWriters() })).toBe('')
  }, 240_000)

  it('have a reason in every row', () => {
    for (const { source, writes, why } of sessionTreeWriters()) {
      expect(`${source} ${writes}`.length).toBeGreaterThan(10)
      expect(why.length).toBeGreaterThan(20)
    }
    expect(new Set(sessionTreeWriters().map(({ source }) => source)).size).toBe(sessionTreeWriters().length)
  })
})

describe('findRawWriters', () => {
  it.each<[string, string, string[]]>([
    ['a default import', `import fs from 'fs'; fs.writeFileSync(p, d)`, ['writeFileSync']],
    ['a namespace import', `import * as disk from 'node:fs'; disk.appendFile(p, d, cb)`, ['appendFile']],
    ['a named import', `import { createWriteStream } from 'fs'; createWriteStream(p)`, ['createWriteStream']],
    ['a renamed import', `import { writeFile as put } from 'node:fs/promises'; await put(p, d)`, ['writeFile']],
    ['a promises import', `import { promises as fsp } from 'fs'; fsp.cp(a, b)`, ['cp']],
    ['a default import by name', `import { default as f } from 'node:fs'; f.renameSync(a, b)`, ['renameSync']],
    ['promises of the module', `import fs from 'node:fs'; await fs.promises.truncate(p)`, ['truncate']],
    ['require', `const fs = require('fs'); fs.copyFileSync(a, b)`, ['copyFileSync']],
    ['a destructured require', `const { rename: mv } = require('node:fs'); mv(a, b, cb)`, ['rename']],
    [
      'a nested destructured require',
      `const { promises: { writeFile } } = require('fs'); writeFile(p, d)`,
      ['writeFile'],
    ],
    ['import equals', `import fs = require('fs'); fs.writeFileSync(p, d)`, ['writeFileSync']],
    ['a require in place', `require('fs').writeFileSync(p, d)`, ['writeFileSync']],
    ['a dynamic import', `const fs = await import('node:fs'); fs.linkSync(a, b)`, ['linkSync']],
    [
      'a dynamic import in place',
      `export const f = async () => { await (await import('fs/promises')).writeFile(p, d) }`,
      ['writeFile'],
    ],
    ['a dynamic import with then', `import('fs').then(({ writeFileSync }) => writeFileSync(p, d))`, ['writeFileSync']],
    ['a built-in by name', `process.getBuiltinModule('fs').writeFileSync(p, d)`, ['writeFileSync']],
    ['an alias', `import fs from 'fs'; const put = fs.writeFileSync; put(p, d)`, ['writeFileSync']],
    ['an alias of the module', `import * as a from 'fs'; const b = a; b['writeFileSync'](p, d)`, ['writeFileSync']],
    ['a destructured alias', `import fs from 'fs'; const { writeFileSync: w } = fs; w(p, d)`, ['writeFileSync']],
    [
      'a rest of the module',
      `import fs from 'fs'; const { existsSync, ...rest } = fs; rest.rmSync(p); rest.cpSync(a, b)`,
      ['cpSync'],
    ],
    ['a promisified one', `import { writeFile } from 'fs'; const put = promisify(writeFile); put(p, d)`, ['writeFile']],
    ['a bound one', `import fs from 'fs'; const put = fs.writeFileSync.bind(fs); put(p, d)`, ['writeFileSync']],
    ['a conditional one', `import fs from 'fs'; (quick ? fs : slow).writeFileSync(p, d)`, ['writeFileSync']],
    ['an injected file system', `function f(options) { options.fs.writeFileSync(p, d) }`, ['writeFileSync']],
    [
      'an injected one with a default',
      `import n from 'fs'; function f({ fs = n }) { fs.renameSync(a, b) }`,
      ['renameSync'],
    ],
    ['an injected one in a private field', `class A { #fs; f() { this.#fs.openSync(p, 'w') } }`, ['openSync']],
    ['another file system library', `import fs from 'fs-extra'; fs.writeFile(p, d)`, ['writeFile']],
    ['open to write', `import { open } from 'fs/promises'; await open(p, 'a+')`, ['open']],
    ['open to read and write', `import { openSync } from 'fs'; openSync(p, 'r+')`, ['openSync']],
    [
      'open with flag constants',
      `import fs from 'fs'; fs.openSync(p, fs.constants.O_WRONLY | fs.constants.O_CREAT)`,
      ['openSync'],
    ],
    ['open with flags that are not known here', `import { openSync } from 'fs'; openSync(p, flags)`, ['openSync']],
    ['open with a variable', `import { openSync } from 'fs'; let flags = 'r'; openSync(p, flags)`, ['openSync']],
    ['open that writes in one case', `import { openSync } from 'fs'; openSync(p, exists ? 'r' : 'w')`, ['openSync']],
    ['a stream class', `import { WriteStream } from 'fs'; new WriteStream(p)`, ['WriteStream']],
    ['a function handed on', `import { writeFile } from 'fs/promises'; paths.map(writeFile)`, ['writeFile']],
    ['the module handed on', `import fs from 'fs'; archive(fs, p)`, ['fs']],
    ['the module spread', `import fs from 'fs'; const mine = { ...fs }`, ['fs']],
    ['a computed member', `import fs from 'fs'; fs[name](p, d)`, ['fs']],
    ['optional calls', `import fs from 'fs'; fs?.writeFileSync?.(p, d)`, ['writeFileSync']],
    ['JavaScript', `const fs = require('fs')\nmodule.exports = () => fs.appendFileSync(p, d)`, ['appendFileSync']],
    [
      'the atomic write of the engine',
      `import { atomicWriteFile } from '@nexus/host'; await atomicWriteFile(p, d)`,
      ['atomicWriteFile'],
    ],
  ])('flags %s', (name, text, calls) => {
    expect(callsIn(text, name === 'JavaScript' ? 'plugin.js' : 'plugin.ts')).toEqual(calls)
  })

  it.each<[string, string]>([
    ['reading', `import fs from 'fs'; fs.readFileSync(p); fs.createReadStream(p); fs.statSync(p)`],
    [
      'making and removing',
      `import { mkdirSync, rmSync, unlinkSync } from 'fs'; mkdirSync(p); rmSync(p); unlinkSync(p)`,
    ],
    ['open to read', `import { open } from 'fs/promises'; await open(p); await open(p, 'r')`],
    ['open to read with a callback', `import fs from 'fs'; fs.open(p, (error, fd) => use(fd))`],
    [
      'open with reading constants',
      `import { constants, openSync } from 'fs'; const F = constants.O_RDONLY | constants.O_NOFOLLOW; openSync(p, F)`,
    ],
    ['a reader handed on', `import { readFile } from 'fs/promises'; paths.map(readFile)`],
    ['the workspace', `await session.writeFile('files/a', d); await session.appendFile('files/a', d)`],
    ['a function of the same name', `import { writeFile } from './disk.ts'; writeFile(p, d)`],
    ['a local one that hides the import', `import { writeFile } from 'fs'; function f(writeFile) { writeFile(p) }`],
    ['a method of the same name', `class A { writeFile() {} f() { this.writeFile(p); other.rename(a, b) } }`],
    [
      'types alone',
      `import type { writeFile } from 'fs'; import nodeFs from 'fs'; type F = Pick<typeof nodeFs, 'writeFile'>; let w: typeof writeFile`,
    ],
    ['text and comments', `const help = 'fs.writeFileSync(p, d)' // fs.writeFileSync(p, d)`],
    ['an unused import', `import { writeFile } from 'fs'`],
    [
      'a reading injected file system',
      `import n from 'fs'; class A { #fs; constructor(o) { this.#fs = o.fs ?? n } f() { return this.#fs.readFileSync(p) } }`,
    ],
    ['an option object with a writer name', `run({ rename: 'a', open: true, writeFile })`],
    ['another module with open', `import { open } from 'sqlite'; await open({ filename })`],
  ])('does not flag %s', (_name, text) => {
    expect(callsIn(text)).toEqual([])
  })

  it('says where', () => {
    expect(findRawWriters(`import fs from 'fs'\n\nfs.writeFileSync(path,\n  data)\n`, 'a.ts')).toEqual([
      { line: 3, code: 'fs.writeFileSync(path, data)', call: 'writeFileSync' },
    ])
  })
})

describe('judgeWriters', () => {
  const raw = `import { writeFileSync } from 'fs'; writeFileSync(p, d)`

  it('takes an announced write and a row, for the file or for its directory', () => {
    const announced = `${raw}; await ctx.session.announceWrite(p, true)`
    const sources = [
      { path: 'plugins/a.ts', text: announced },
      { path: 'plugins/b.ts', text: raw },
      { path: 'plugins/deep/c.ts', text: raw },
    ]
    const verdict = judgeWriters(sources, [row('plugins/b.ts'), row('plugins/deep/')])
    expect(verdict).toEqual({ silent: [], stale: [] })
    expect(explainVerdict(verdict)).toBe('')
    expect(announcesWrites('session.announceAppend(p, 3)', 'a.ts')).toBe(true)
  })

  it('names a silent writer, its calls, and the three ways forward', () => {
    const message = explainVerdict(judgeWriters([{ path: 'plugins/a.ts', text: raw }], []))
    expect(message).toContain('plugins/a.ts')
    expect(message).toContain('line 1, writeFileSync: writeFileSync(p, d)')
    for (const way of ['session.writeFile()', 'announceWrite(', 'sessionTreeWriters()']) expect(message).toContain(way)
  })

  it('reports a row whose file does not write any more', () => {
    const sources = [{ path: 'plugins/a.ts', text: 'export const a = 1' }]
    const message = explainVerdict(judgeWriters(sources, [row('plugins/a.ts'), row('plugins/gone.ts')]))
    expect(message).toContain('stale')
    expect(message).toMatch(/plugins\/a\.ts\n\s*plugins\/gone\.ts/)
  })

  it('lets the row of a file stand before the one of its directory', () => {
    const verdict = judgeWriters([{ path: 'p/a.ts', text: raw }], [row('p/'), row('p/a.ts')])
    expect(verdict.stale).toEqual([row('p/')])
  })
})

describe('checkRawWriters', () => {
  it('reads sources below directories, and neither tests nor what was installed or built', async () => {
    const root = mkdtempSync(join(tmpdir(), 'nexus-raw-'))
    onTestFinished(() => rmSync(root, { recursive: true, force: true }))
    const raw = `import { writeFileSync } from 'node:fs'; writeFileSync(p, d)`
    const paths = [
      'src/deep/a.mts',
      'src/a.test.ts',
      'src/b.d.ts',
      'src/dist/c.js',
      'src/node_modules/d/e.js',
      'src/f.md',
    ]
    for (const path of paths) {
      mkdirSync(join(root, path, '..'), { recursive: true })
      writeFileSync(join(root, path), raw)
    }
    const message = await checkRawWriters({ root, sources: ['src'] })
    expect(message).toContain('src/deep/a.mts')
    expect(message.match(/writeFileSync: /g)).toHaveLength(1)
    expect(await checkRawWriters({ root, sources: ['src'], writers: [row('src/deep/')] })).toBe('')
    expect(await checkRawWriters({ root, sources: ['src'], writers: [row('src/deep/'), row('src/x.ts')] })).toContain(
      'src/x.ts',
    )
    await expect(checkRawWriters({ root, sources: ['none'] })).rejects.toMatchObject({ code: 'ENOENT' })
  })
})
