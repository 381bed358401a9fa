import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Logger, objectStoreConfig, type ObjectStoreConfig, silentLogger } from '@nexus/objectstore'
import { ACCOUNT_KEY, type AzureEmulator, openAzureEmulator } from '@nexus/objectstore-emulators/azure'
import { type AzureBackend, openAzureBackend } from '../src/driver.ts'

/** An emulator with room for local files beside it. It is slow to start, so one serves a whole test file. */
export interface TestStore {
  emulator: AzureEmulator
  /** A directory of its own. */
  directory: string
  /** Writes a local file and gives its path. */
  file: (content: string | Uint8Array) => string
  /** A path nothing is at. */
  freshPath: () => string
  /** Makes an empty container and gives its name. */
  newContainer: () => Promise<string>
  open: (container: string, parts?: Partial<ObjectStoreConfig>, logger?: Logger) => Promise<AzureBackend>
  remove: () => Promise<void>
}

export async function openTestStore(): Promise<TestStore> {
  const directory = mkdtempSync(join(tmpdir(), 'nexus-azure-'))
  const emulator = await openAzureEmulator()
  const opened: AzureBackend[] = []
  let files = 0
  let containers = 0
  const freshPath = (): string => join(directory, `local-${files++}`)
  return {
    emulator,
    directory,
    freshPath,
    file: (content) => {
      const path = freshPath()
      writeFileSync(path, content)
      return path
    },
    newContainer: async () => {
      const name = `container-${++containers}`
      await emulator.client.createContainer(name)
      return name
    },
    open: async (container, { options, ...parts } = {}, logger = silentLogger) => {
      const config = objectStoreConfig({
        backend: 'azure',
        bucket: container,
        endpoint: emulator.url,
        options: { account_key: ACCOUNT_KEY, ...options },
        ...parts,
      })
      const backend = await openAzureBackend(config, { logger })
      opened.push(backend)
      return backend
    },
    remove: async () => {
      for (const backend of opened) await backend.close()
      await emulator.close()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Makes an empty directory in the store's room. */
export function freshDirectory(store: TestStore): string {
  const path = store.freshPath()
  mkdirSync(path)
  return path
}
