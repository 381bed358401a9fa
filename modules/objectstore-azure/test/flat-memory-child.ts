// Uploads and downloads a large file, and prints by how many MiB the resident memory grew at most.
import { readFileSync } from 'node:fs'
import { objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { ACCOUNT_KEY } from '@nexus/objectstore-emulators/azure'
import { openAzureBackend } from '../src/driver.ts'

const [endpoint = '', bucket = '', path = '', target = ''] = process.argv.slice(2)
const options = { account_key: ACCOUNT_KEY }
const config = objectStoreConfig({ backend: 'azure', bucket, endpoint, options })
const backend = await openAzureBackend(config, { logger: silentLogger })
await backend.put('small', import.meta.filename)
const residentMib = (): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024
const before = residentMib()
let peak = before
const onProgress = (): void => void (peak = Math.max(peak, residentMib()))
await backend.put('s/large', path, { onProgress })
await backend.get('s/large', target, { onProgress })
await backend.close()
process.stdout.write(String(peak - before))
