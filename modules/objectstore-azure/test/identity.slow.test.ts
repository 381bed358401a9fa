import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { openAzureEmulator, openManagedIdentity } from '@nexus/objectstore-emulators/azure'
import { describe, expect, it, vi } from 'vitest'
import { openAzureBackend } from '../src/driver.ts'

const run = promisify(execFile)

describe('credentials', () => {
  it('of a managed identity are tokens of its endpoint, over https', async () => {
    const identity = await openManagedIdentity()
    const fixture = (name: string): string => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url))
    const [certPath, keyPath] = [fixture('tls-cert.pem'), fixture('tls-key.pem')]
    const emulator = await openAzureEmulator({ tls: { certPath, keyPath } })
    try {
      const child = fileURLToPath(new URL('use-container-child.ts', import.meta.url))
      const env = { ...process.env, ...identity.environment, NODE_EXTRA_CA_CERTS: certPath }
      const { stdout } = await run(process.execPath, [...process.execArgv, child, emulator.url, 'by-identity'], { env })
      expect(stdout).toBe('by a managed identity')
      expect(identity.issued()).toBeGreaterThan(0)
    } finally {
      await emulator.close()
      await identity.close()
    }
  })

  it('that nothing gives fail the open, and an identity that does not answer only warns', async () => {
    vi.stubEnv('AZURE_TOKEN_CREDENTIALS', 'EnvironmentCredential')
    const config = objectStoreConfig({ backend: 'azure', bucket: 'container', options: { account: 'account' } })
    await expect(openAzureBackend(config, { logger: silentLogger })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      key: 'core.object_store.credentials_file',
    })
    vi.stubEnv('AZURE_TOKEN_CREDENTIALS', 'ManagedIdentityCredential')
    vi.stubEnv('IDENTITY_ENDPOINT', 'http://127.0.0.1:1/msi/token')
    vi.stubEnv('IDENTITY_HEADER', 'header')
    const warnings: string[] = []
    const logger = { ...silentLogger, warn: (_: unknown, message: string) => void warnings.push(message) }
    await openAzureBackend(config, { logger })
    vi.unstubAllEnvs()
    expect(warnings).toEqual(['no access token now; going on, each request will try again'])
  })
})
