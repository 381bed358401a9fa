import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BlobServiceClient } from '@azure/storage-blob'
import { DefaultAzureCredential } from '@azure/identity'
import { objectStoreConfig } from '@nexus/objectstore'
import { openAzureBackend } from '../src/driver.ts'

// Trusts the emulator's certificate, which a process can do at its start only.
const [endpoint = '', container = ''] = process.argv.slice(2)
const dir = mkdtempSync(join(tmpdir(), 'nexus-azure-child-'))
const file = join(dir, 'file')
writeFileSync(file, 'by a managed identity')
await new BlobServiceClient(endpoint, new DefaultAzureCredential()).createContainer(container)
const config = objectStoreConfig({ backend: 'azure', bucket: container, endpoint })
const backend = await openAzureBackend(config, { logger: console })
await backend.put('k', file)
await backend.get('k', join(dir, 'copy'))
process.stdout.write(readFileSync(join(dir, 'copy')))
rmSync(dir, { recursive: true })
