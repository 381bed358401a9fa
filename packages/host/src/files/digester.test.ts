import { createHash, randomBytes } from 'node:crypto'
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { execFileSync, fork } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { silentLogger } from '../logger.ts'
import { Slices } from '../time/slices.ts'
import { FileDigester } from './digester.ts'

const LARGE = 9 * 1024 * 1024
const sha = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex')

let dir: string
let digester: FileDigester
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'nexus-digest-'))
  digester = new FileDigester()
})
afterEach(async () => {
  await digester.close()
  rmSync(dir, { recursive: true })
})

function put(name: string, bytes: Buffer | string): string {
  const path = join(dir, name)
  writeFileSync(path, bytes)
  return path
}

/** Threads of this process. */
const threads = (): number => readdirSync('/proc/self/task').length

const inline = { sizeHint: 0, slices: new Slices() }
const beside = { sizeHint: LARGE, slices: new Slices() }

describe.each([
  ['on the caller thread', () => inline],
  ['in the worker', () => beside],
])('a digest taken %s', (_where, options) => {
  it('is the sha256 of the whole file, or of its first bytes', async () => {
    const bytes = randomBytes(3 * 1024 * 1024 + 17)
    const path = put('f', bytes)
    expect(await digester.digest(path, options())).toEqual({
      sha256: sha(bytes),
      bytes: bytes.length,
      size: bytes.length,
    })
    expect(await digester.digest(path, { ...options(), limit: 1000 })).toEqual({
      sha256: sha(bytes.subarray(0, 1000)),
      bytes: 1000,
      size: bytes.length,
    })
    expect(await digester.digest(path, { ...options(), limit: bytes.length + 5 })).toMatchObject({
      bytes: bytes.length,
    })
  })

  it('of an empty file is that of nothing', async () => {
    expect(await digester.digest(put('e', ''), options())).toEqual({ sha256: sha(''), bytes: 0, size: 0 })
    expect(await digester.digest(put('f', 'abc'), { ...options(), limit: 0 })).toMatchObject({
      sha256: sha(''),
      size: 3,
    })
  })

  it('of an open file can be taken together with a copy, whatever its name leads to by now', async () => {
    for (const size of [0, 10, 3 * 1024 * 1024 + 17]) {
      const bytes = randomBytes(size)
      const fd = openSync(put('f', bytes), 'r')
      const copyTo = openSync(join(dir, `copy-${size}`), 'wx')
      put('other', 'other')
      renameSync(join(dir, 'other'), join(dir, 'f'))
      expect(await digester.digest(fd, { ...options(), copyTo })).toMatchObject({ sha256: sha(bytes), bytes: size })
      closeSync(fd)
      closeSync(copyTo)
      expect(readFileSync(join(dir, `copy-${size}`)).equals(bytes)).toBe(true)
    }
  })

  it('refuses a link, a directory and a FIFO, and waits for nobody', async () => {
    const target = put('target', 'x')
    symlinkSync(target, join(dir, 'link'))
    mkdirSync(join(dir, 'dir'))
    execFileSync('mkfifo', [join(dir, 'fifo')])
    await expect(digester.digest(join(dir, 'link'), options())).rejects.toMatchObject({ code: 'ELOOP' })
    await expect(digester.digest(join(dir, 'dir'), options())).rejects.toMatchObject({ code: 'ENOTREG' })
    await expect(digester.digest(join(dir, 'fifo'), options())).rejects.toMatchObject({ code: 'ENOTREG' })
    await expect(digester.digest(join(dir, 'none'), options())).rejects.toMatchObject({ code: 'ENOENT' })
  })
})

describe('the digester', () => {
  it('answers many at once, each with its own', async () => {
    const files = Array.from({ length: 300 }, (_, n) => put(`f${n}`, `content ${n}`))
    const digests = await Promise.all(files.map((path) => digester.digest(path, beside)))
    expect(digests.map(({ sha256 }) => sha256)).toEqual(files.map((_, n) => sha(`content ${n}`)))
  })

  it('does everything on the caller thread where its worker can not be started, and says so once', async () => {
    for (const [url, reason] of [
      [new URL('./no-such-worker.ts', import.meta.url), /no-such-worker\.ts; bundle it .*leave @nexus\/durability out/],
      [new URL('https://example.invalid/worker.js'), /scheme file/],
    ] as const) {
      const crippled = new FileDigester({ workerUrl: url })
      const warnings: string[] = []
      crippled.logger = { ...silentLogger, warn: (_, text) => void warnings.push(text) }
      const paths = [put('a', 'one'), put('b', 'two')]
      const digests = await Promise.all(paths.map((path) => crippled.digest(path, beside)))
      expect(digests.map(({ sha256 }) => sha256)).toEqual([sha('one'), sha('two')])
      expect(await crippled.digest(put('c', 'three'), beside)).toMatchObject({ sha256: sha('three') })
      expect(warnings).toEqual([expect.stringMatching(reason)])
      expect(warnings[0]).toContain('main thread')
    }
  })

  it('tries a worker that could not be started again after a pause', async () => {
    const worker = join(dir, 'late.mjs')
    const late = new FileDigester({ workerUrl: pathToFileURL(worker), restartMs: 20 })
    const path = put('f', 'content')
    const before = threads()
    await late.digest(path, beside)
    writeFileSync(worker, `import ${JSON.stringify(new URL('./digest-worker.ts', import.meta.url).href)}`)
    await late.digest(path, beside)
    expect(threads()).toBe(before)
    await setTimeout(25)
    expect(await late.digest(path, beside)).toMatchObject({ sha256: sha('content') })
    expect(threads()).toBeGreaterThan(before)
    await late.close()
  })

  it('ends its worker when that had nothing to do for a while, and starts another for the next large file', async () => {
    const idle = new FileDigester({ idleMs: 200 })
    const path = put('f', 'content')
    const before = threads()
    for (let round = 0; round < 2; round++) {
      expect(await idle.digest(path, beside)).toMatchObject({ sha256: sha('content') })
      expect(threads()).toBeGreaterThan(before)
      await expect.poll(threads).toBe(before)
    }
  })

  it('finishes on the caller thread what its worker was asked for when it died', async () => {
    const path = put('f', randomBytes(1000))
    await digester.digest(path, beside)
    const pending = Promise.all(Array.from({ length: 20 }, () => digester.digest(path, beside)))
    await digester.close()
    expect(new Set((await pending).map(({ bytes }) => bytes))).toEqual(new Set([1000]))
    expect(await digester.digest(path, beside)).toMatchObject({ bytes: 1000 })
  })

  it('starts no worker for a few small files', async () => {
    const before = threads()
    for (let n = 0; n < 20; n++)
      await digester.digest(put(`f${n}`, 'x'.repeat(20_000)), { sizeHint: 20_000, slices: new Slices() })
    expect(threads()).toBe(before)
  })

  it('does not hold the process when it is idle, and holds it while it owes an answer', async () => {
    const path = put('f', randomBytes(1000))
    const script = `
      import { FileDigester } from ${JSON.stringify(new URL('./digester.ts', import.meta.url).href)}
      import { Slices } from ${JSON.stringify(new URL('../time/slices.ts', import.meta.url).href)}
      const digester = new FileDigester()
      digester.digest(${JSON.stringify(path)}, { sizeHint: ${LARGE}, slices: new Slices() })
        .then(({ sha256 }) => console.log(sha256))`
    const file = put('script.mts', script)
    const child = fork(file, { stdio: ['ignore', 'pipe', 'inherit', 'ipc'], execArgv: process.execArgv })
    child.disconnect()
    let output = ''
    child.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()))
    const code = await new Promise((resolve) => child.on('exit', resolve))
    expect(code).toBe(0)
    expect(output.trim()).toMatch(/^[0-9a-f]{64}$/)
  })
})
