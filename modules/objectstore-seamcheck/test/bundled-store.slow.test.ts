import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

let directory: string

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nexus-bundled-'))
})

afterEach(() => rmSync(directory, { recursive: true, force: true }))

const PROGRAM = `
import { readFileSync, writeFileSync } from 'node:fs'
import { objectStoreConfig, openObjectStore } from '@nexus/objectstore'
import '@nexus/objectstore-fs'
import '@nexus/objectstore-s3'

async function main() {
  const logger = { debug() {}, info() {}, warn: (_, text) => console.log('warn:', text), error: console.error }
  const store = await openObjectStore(objectStoreConfig({ backend: 'fs', bucket: process.argv[2] }), { logger })
  writeFileSync(process.argv[3], 'content')
  await store.put('s/a', process.argv[3])
  await store.get('s/a', process.argv[3] + '-copy')
  await store.close()
  console.log(readFileSync(process.argv[3] + '-copy', 'utf8'))
  const s3 = objectStoreConfig({ backend: 's3', bucket: 'b', endpoint: 'http://127.0.0.1:1', options: { max_attempts: 1 } })
  const remote = await openObjectStore(s3, { logger })
  await remote.list('s').catch((error) => console.log(error.code))
  await remote.close()
}
main()
`

describe('a program in one file, made by esbuild', () => {
  it.each(['esm', 'cjs'] as const)(
    'stores into a directory, on its main thread, and reaches for S3 (%s)',
    async (format) => {
      const bucket = join(directory, 'bucket')
      mkdirSync(bucket)
      const outfile = join(directory, format === 'esm' ? 'program.mjs' : 'program.cjs')
      await build({
        stdin: { contents: PROGRAM, resolveDir: dirname(fileURLToPath(import.meta.url)), loader: 'js' },
        bundle: true,
        platform: 'node',
        format,
        target: 'node20',
        conditions: ['@nexus/source'],
        outfile,
        logLevel: 'error',
        logOverride: { 'empty-import-meta': 'silent' },
        // Packages of CommonJS call require, which a module does not have.
        ...(format === 'esm'
          ? {
              banner: {
                js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
              },
            }
          : {}),
      })
      const local = join(directory, 'local')
      writeFileSync(local, '')
      const env = {
        ...process.env,
        AWS_ACCESS_KEY_ID: 'key',
        AWS_SECRET_ACCESS_KEY: 'secret',
        AWS_EC2_METADATA_DISABLED: 'true',
      }
      const { stdout } = await promisify(execFile)(process.execPath, [outfile, bucket, local], { env })
      expect(stdout).toMatch(/warn: objectstore-fs-worker\.js is missing.*out of the bundle/)
      expect(stdout).toContain('content\nUNAVAILABLE')
    },
  )
})
