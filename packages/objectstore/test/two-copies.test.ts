import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { tempDir } from './temp-dir.ts'

const SRC = fileURLToPath(new URL('../src', import.meta.url))
const SHARED = ['errors', 'host'].map((name) => ({
  name,
  dir: fileURLToPath(new URL(`../../${name}`, import.meta.url)),
}))

// Two installed copies, each with a copy of what it depends on of its own, as two versions in one node_modules are.
const SCRIPT = `
import * as a from './a/src/index.ts'
import * as b from './b/src/index.ts'
const logger = { debug() {}, info() {}, warn() {}, error() {} }
const failing = async () => { throw new a.ObjectFailure('s/x', new Error('cut')) }
const backend = { put: async () => {}, delete: async () => {}, list: async () => [], flush: async () => {}, hydrate: failing }
a.register('twice', () => backend)
let conflict
try { b.register('twice', () => backend) } catch (error) { conflict = error.code }
const store = await b.openObjectStore(b.objectStoreConfig({ backend: 'twice' }), { logger })
const refused = await a.open(a.objectStoreConfig({ backend: 'none' }), { logger }).catch((error) => error)
const hydrate = await store.hydrate('s', '/nonexistent').catch((error) => error)
console.log(JSON.stringify({
  distinct: a.register !== b.register && a.InvalidKeyError !== b.InvalidKeyError,
  backends: b.backends(),
  conflict,
  name: store.name,
  key: b.isInvalidKeyError(new a.InvalidKeyError('x/', 'ends')),
  failure: b.isObjectFailure(new a.ObjectFailure('k', new Error('x'))),
  error: b.isNexusError(refused, 'DRIVER_MISSING'),
  hydrate: [hydrate.code, hydrate.key],
}))
`

describe('two installed copies of this package', () => {
  it("share one registry and recognise each other's errors", () => {
    const dir = tempDir()
    for (const copy of ['a', 'b']) {
      cpSync(SRC, join(dir, copy, 'src'), { recursive: true, filter: (path) => !path.endsWith('.test.ts') })
      for (const { name, dir: from } of SHARED) {
        const to = join(dir, copy, 'node_modules/@nexus', name)
        mkdirSync(dirname(to), { recursive: true })
        if (copy === 'a') symlinkSync(from, to)
        else cpSync(from, to, { recursive: true, filter: (path) => !path.includes('node_modules/.') })
      }
      writeFileSync(join(dir, copy, 'package.json'), '{"type":"module"}')
    }
    writeFileSync(join(dir, 'package.json'), '{"type":"module"}')
    writeFileSync(join(dir, 'main.ts'), SCRIPT)
    const output = execFileSync(process.execPath, [...process.execArgv, 'main.ts'], { cwd: dir, encoding: 'utf8' })
    expect(JSON.parse(output)).toEqual({
      distinct: true,
      backends: ['twice'],
      conflict: 'DRIVER_CONFLICT',
      name: 'twice',
      key: true,
      failure: true,
      error: true,
      hydrate: ['UNAVAILABLE', 's/x'],
    })
  })
})
