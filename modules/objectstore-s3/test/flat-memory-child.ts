// Uploads and downloads a large file, and prints by how many MiB the resident memory grew at most.
import { readFileSync } from 'node:fs'
import { objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { openS3Backend } from '../src/driver.ts'

const [endpoint = '', credentialsFile = '', checksums = '', path = '', target = ''] = process.argv.slice(2)
const config = objectStoreConfig({ backend: 's3', bucket: 'bucket', endpoint, credentialsFile, options: { checksums } })
const backend = await openS3Backend(config, { logger: silentLogger })
await backend.put('small', import.meta.filename)
const residentMib = (): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024
const before = residentMib()
let peak = before
const onProgress = (): void => void (peak = Math.max(peak, residentMib()))
await backend.put('s/large', path, { onProgress })
if (target !== '') await backend.get('s/large', target, { onProgress })
await backend.close()
process.stdout.write(String(peak - before))
