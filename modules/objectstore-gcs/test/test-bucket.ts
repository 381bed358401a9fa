import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Logger, objectStoreConfig, type ObjectStoreConfig, silentLogger } from '@nexus/objectstore'
import { type GcsEmulator, type GcsEmulatorOptions, openGcsEmulator } from '@nexus/objectstore-emulators/gcs'
import { vi } from 'vitest'
import { type GcsBackend, type GcsInternals, openGcsBackend } from '../src/driver.ts'
import { type PlainClient, plainClient } from './plain-client.ts'
import { SkippingClock } from './skipping-clock.ts'

export const BUCKET = 'bucket'

/** A bucket on an emulator, with room for local files beside it. Time passes in waits only. */
export interface TestBucket {
  emulator: GcsEmulator
  clock: SkippingClock
  /** Looks into the bucket by plain fetch. */
  client: PlainClient
  /** A directory of its own. */
  directory: string
  /** Writes a local file and gives its path. */
  file: (content: string | Uint8Array) => string
  /** A path nothing is at. */
  freshPath: () => string
  open: (parts?: Partial<ObjectStoreConfig>, more?: { logger?: Logger } & GcsInternals) => Promise<GcsBackend>
  /** Closes what was opened and removes everything. */
  remove: () => Promise<void>
}

/** No machine that runs the tests has credentials of its own then. */
export function stubNoCredentials(home: string): void {
  for (const name of ['GOOGLE_APPLICATION_CREDENTIALS', 'GCE_METADATA_HOST', 'GCE_METADATA_IP']) vi.stubEnv(name, '')
  vi.stubEnv('METADATA_SERVER_DETECTION', 'none')
  vi.stubEnv('HOME', home)
}

export async function openTestBucket(options: GcsEmulatorOptions = {}): Promise<TestBucket> {
  const directory = mkdtempSync(join(tmpdir(), 'nexus-gcs-'))
  stubNoCredentials(directory)
  const clock = new SkippingClock()
  const emulator = await openGcsEmulator({ buckets: [BUCKET], now: () => clock.now(), ...options })
  const opened: GcsBackend[] = []
  let files = 0
  const freshPath = (): string => join(directory, `local-${files++}`)
  return {
    emulator,
    clock,
    client: plainClient(emulator.url, BUCKET),
    directory,
    freshPath,
    file: (content) => {
      const path = freshPath()
      writeFileSync(path, content)
      return path
    },
    open: async (parts = {}, { logger = silentLogger, ...internals } = {}) => {
      const config = objectStoreConfig({ backend: 'gcs', bucket: BUCKET, endpoint: emulator.url, ...parts })
      const backend = await openGcsBackend(config, { logger }, { clock, ...internals })
      opened.push(backend)
      return backend
    },
    remove: async () => {
      for (const backend of opened) await backend.close()
      await emulator.close()
      vi.unstubAllEnvs()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Makes an empty directory in the bucket's room. */
export function freshDirectory(bucket: TestBucket): string {
  const path = bucket.freshPath()
  mkdirSync(path)
  return path
}
