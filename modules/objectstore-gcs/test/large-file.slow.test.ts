import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { openGcsEmulator } from '@nexus/objectstore-emulators/gcs'
import { describe, expect, it } from 'vitest'
import { plainClient } from './plain-client.ts'

const SIZE_BYTES = Math.round(2.1 * 1024 ** 3)
const MOST_GROWTH_MIB = 100

describe('a file of more than 2 GiB', () => {
  it('is uploaded, read in part and hydrated in flat memory', { timeout: 240_000 }, async () => {
    const directory = mkdtempSync(join(tmpdir(), 'nexus-gcs-large-'))
    const emulator = await openGcsEmulator({ buckets: ['bucket'], bodies: 'discard' })
    try {
      const path = join(directory, 'large')
      writeFileSync(path, '')
      truncateSync(path, SIZE_BYTES)
      const local = join(directory, 'local')
      mkdirSync(local)
      const child = fileURLToPath(new URL('large-file-child.ts', import.meta.url))
      const args = [...process.execArgv, child, emulator.url, 'bucket', path, local]
      const env = {
        ...process.env,
        METADATA_SERVER_DETECTION: 'none',
        GOOGLE_APPLICATION_CREDENTIALS: '',
        HOME: directory,
      }
      const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { env })
      expect(stderr).toBe('')
      expect(Number(stdout)).toBeLessThan(MOST_GROWTH_MIB)
      expect(statSync(join(local, 'got')).size).toBe(SIZE_BYTES - 2 * 1024 ** 3)
      expect(statSync(join(local, 'hydrated', 'large')).size).toBe(SIZE_BYTES)
      const stored = await plainClient(emulator.url, 'bucket').metadata('s/large')
      expect(stored).toMatchObject({ size: String(SIZE_BYTES) })
      const chunks = emulator.log.filter((line) => line === 'uploads.chunk s/large').length
      expect(chunks).toBe(Math.ceil(SIZE_BYTES / (16 * 1024 ** 2)))
    } finally {
      await emulator.close()
      rmSync(directory, { recursive: true, force: true })
    }
  })
})
