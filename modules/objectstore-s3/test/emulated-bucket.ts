import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Logger, objectStoreConfig, type ObjectStoreConfig, silentLogger } from '@nexus/objectstore'
import { EMULATOR_CREDENTIALS, openS3Emulator, type S3Emulator } from '@nexus/objectstore-emulators/s3'
import { openS3Backend, type S3Backend } from '../src/driver.ts'
import { writeCredentials } from './gateway.ts'

/** An emulator with one bucket, and a directory for local files. */
export interface EmulatedBucket {
  emulator: S3Emulator
  bucket: string
  directory: string
  credentialsFile: string
  /** Writes a local file and gives its path. */
  file(content: string | Uint8Array): string
  /** A path nothing is at. */
  freshPath(): string
  /** Opens a backend; `parts` overrides the configuration. */
  open(options?: Record<string, unknown>, parts?: Partial<ObjectStoreConfig>, logger?: Logger): Promise<S3Backend>
  /** Closes what was opened and removes everything. */
  remove(): Promise<void>
}

export async function openEmulatedBucket(): Promise<EmulatedBucket> {
  const emulator = await openS3Emulator()
  const bucket = 'bucket'
  emulator.createBucket(bucket)
  const directory = mkdtempSync(join(tmpdir(), 'nexus-s3-test-'))
  const credentialsFile = writeCredentials(EMULATOR_CREDENTIALS.accessKeyId, EMULATOR_CREDENTIALS.secretAccessKey)
  const opened: S3Backend[] = []
  let files = 0
  const freshPath = (): string => join(directory, `local-${files++}`)
  return {
    emulator,
    bucket,
    directory,
    credentialsFile,
    freshPath,
    file: (content) => {
      const path = freshPath()
      writeFileSync(path, content)
      return path
    },
    open: async (options = {}, parts = {}, logger = silentLogger) => {
      const state = join(directory, 'state')
      const config = objectStoreConfig({
        backend: 's3',
        bucket,
        endpoint: emulator.url,
        credentialsFile,
        options: { state_directory: state, ...options },
        ...parts,
      })
      const backend = await openS3Backend(config, { logger })
      opened.push(backend)
      return backend
    },
    remove: async () => {
      await Promise.all(opened.map((backend) => backend.close()))
      await emulator.close()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}
