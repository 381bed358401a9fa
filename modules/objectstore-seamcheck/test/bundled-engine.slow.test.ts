import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { EMULATOR_CREDENTIALS, openS3Emulator } from '@nexus/objectstore-emulators/s3'
import { build } from 'esbuild'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

type Format = 'esm' | 'cjs'

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
const WORKERS = {
  'digest-worker': 'packages/host/src/files/digest-worker.ts',
  'copy-worker': 'packages/storage/src/copy/copy-worker.ts',
  'objectstore-fs-worker': 'modules/objectstore-fs/src/worker/objectstore-fs-worker.ts',
}

// "commit" ends by a kill right after the commit; "resume" finds everything on an empty disk, and commits once more.
const PROGRAM = `
import { randomFillSync } from 'node:crypto'
import { openSession } from '@nexus/engine'
import '@nexus/objectstore-fs'
import '@nexus/objectstore-s3'

const [, , mode, root, store, isQuiet] = process.argv
const say = (_, text) => console.log('warn:', text)
const logger = { debug() {}, info() {}, warn: say, error: say }

async function main() {
  const session = await openSession({ id: 'bundled', root, store: JSON.parse(store), ...(isQuiet === 'quiet' ? {} : { logger }) })
  const { db } = session.storage('plugin')
  if (mode === 'commit') {
    await session.workspace.writeFile('files/large', randomFillSync(Buffer.alloc(12 * 1024 * 1024)))
    for (let n = 0; n < 300; n++) await session.workspace.writeFile('files/small/' + n, 'file ' + n)
    db.exec('CREATE TABLE big (bytes BLOB)')
    db.prepare('INSERT INTO big VALUES (?)').run(randomFillSync(Buffer.alloc(3 * 1024 * 1024)))
    await session.commit()
    console.log('committed')
    process.kill(process.pid, 'SIGKILL')
  }
  const large = await session.workspace.readFile('files/large')
  let whole = large.length === 12 * 1024 * 1024
  for (let n = 0; n < 300; n++) {
    whole &&= (await session.workspace.readFile('files/small/' + n)).toString() === 'file ' + n
  }
  console.log('whole', whole, db.prepare('SELECT length(bytes) AS size FROM big').get().size)
  await session.workspace.writeFile('files/after', 'resumed')
  await session.commit()
  await session.close()
  console.log('closed')
}
main().catch((error) => console.log('failed', error))
`

let directory: string

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nexus-bundled-engine-'))
})

afterEach(() => rmSync(directory, { recursive: true, force: true }))

/** Builds the program as the guide says. */
async function bundle(format: Format, workers: Record<string, string>): Promise<string> {
  const entry = join(directory, 'entry.js')
  writeFileSync(entry, PROGRAM)
  const out = join(directory, 'out')
  mkdirSync(join(out, 'node_modules'), { recursive: true })
  writeFileSync(join(out, 'package.json'), JSON.stringify({ type: format === 'esm' ? 'module' : 'commonjs' }))
  symlinkSync(
    join(REPOSITORY, 'packages/storage/node_modules/better-sqlite3'),
    join(out, 'node_modules/better-sqlite3'),
  )
  symlinkSync(join(REPOSITORY, 'packages/journal/node_modules/zstd-napi'), join(out, 'node_modules/zstd-napi'))
  const entries = Object.entries(workers).map(([name, path]) => [name, join(REPOSITORY, path)])
  await build({
    entryPoints: { server: entry, ...(Object.fromEntries(entries) as Record<string, string>) },
    nodePaths: [join(dirname(fileURLToPath(import.meta.url)), '../node_modules')],
    bundle: true,
    platform: 'node',
    format,
    target: 'node20',
    conditions: ['@nexus/source'],
    external: ['better-sqlite3', 'zstd-napi'],
    outdir: out,
    logLevel: 'error',
    logOverride: { 'empty-import-meta': 'silent' },
    ...(format === 'esm'
      ? {
          banner: {
            js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
          },
        }
      : Object.keys(workers).length > 0
        ? {
            define: { 'import.meta.url': 'bundleUrl' },
            banner: { js: "const bundleUrl = require('node:url').pathToFileURL(__filename).href;" },
          }
        : {}),
  })
  return join(out, 'server.js')
}

async function run(program: string, ...args: string[]): Promise<string[]> {
  const credentials = {
    AWS_ACCESS_KEY_ID: EMULATOR_CREDENTIALS.accessKeyId,
    AWS_SECRET_ACCESS_KEY: EMULATOR_CREDENTIALS.secretAccessKey,
    AWS_EC2_METADATA_DISABLED: 'true',
    NODE_NO_WARNINGS: '1',
  }
  const env = { ...process.env, ...credentials }
  const output = await new Promise<string>((resolve) => {
    execFile(process.execPath, [program, ...args], { env, timeout: 120_000 }, (_, stdout, stderr) =>
      resolve(stdout + stderr),
    )
  })
  return output.trim().split('\n')
}

/** A commit, a kill, and a resume on an empty disk. Returns the warnings of each. */
async function commitAndResume(program: string, store: object, ...args: string[]): Promise<string[][]> {
  const warnings: string[][] = []
  for (const [mode, end] of [
    ['commit', ['committed']],
    ['resume', [`whole true ${3 * 1024 * 1024}`, 'closed']],
  ] as const) {
    const lines = await run(program, mode, join(directory, mode), JSON.stringify(store), ...args)
    expect(lines.filter((line) => !line.startsWith('warn: '))).toEqual(end)
    warnings.push(lines.filter((line) => line.startsWith('warn: ')))
  }
  return warnings
}

function expectOneOfEach(warnings: string[], names: string[]): void {
  for (const name of names) {
    const about = warnings.filter((line) => line.includes(`${name}.js`))
    expect(about).toEqual([expect.stringMatching(/out of the bundle/)])
  }
}

describe.each(['esm', 'cjs'] as const)('a server in one file, made by esbuild (%s)', (format) => {
  it('commits into a directory and resumes from it on its main thread, and names each file that is missing once', async () => {
    mkdirSync(join(directory, 'bucket'))
    const program = await bundle(format, {})
    const warnings = await commitAndResume(program, { backend: 'fs', bucket: join(directory, 'bucket') })
    expectOneOfEach(warnings[0] ?? [], ['digest-worker', 'copy-worker', 'objectstore-fs-worker'])
    expectOneOfEach(warnings[1] ?? [], ['digest-worker', 'objectstore-fs-worker'])
  })

  it('commits to S3 and resumes from there', async () => {
    const emulator = await openS3Emulator()
    emulator.createBucket('bucket')
    try {
      const program = await bundle(format, {})
      const warnings = await commitAndResume(program, { backend: 's3', bucket: 'bucket', endpoint: emulator.url })
      expectOneOfEach(warnings[0] ?? [], ['digest-worker', 'copy-worker'])
    } finally {
      await emulator.close()
    }
  })

  it('has its threads where their files were bundled beside it, and the logger of the engine has nothing to say', async () => {
    mkdirSync(join(directory, 'bucket'))
    const program = await bundle(format, WORKERS)
    const store = { backend: 'fs', bucket: join(directory, 'bucket') }
    expect(await commitAndResume(program, store, 'quiet')).toEqual([[], []])
  })
})
