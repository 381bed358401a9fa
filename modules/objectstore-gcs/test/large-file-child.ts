// Uploads, downloads and hydrates a large file, and prints by how many MiB the resident memory grew at most.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { openGcsBackend } from '../src/driver.ts'

const [endpoint = '', bucket = '', path = '', local = ''] = process.argv.slice(2)
const config = objectStoreConfig({ backend: 'gcs', bucket, endpoint })
const backend = await openGcsBackend(config, { logger: silentLogger })
// Loads what the first call loads.
await backend.put('small', import.meta.filename)
const residentMib = (): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024
const before = residentMib()
let peak = before
let calls = 0
const onProgress = (): void => {
  if (calls++ % 64 === 0) peak = Math.max(peak, residentMib())
}
await backend.put('s/large', path, { onProgress })
await backend.get('s/large', join(local, 'got'), { onProgress, offset: 2 * 1024 ** 3 })
await backend.hydrate('s', join(local, 'hydrated'), { onProgress })
await backend.close()
process.stdout.write(String(peak - before))
