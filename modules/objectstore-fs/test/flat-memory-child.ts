// Uploads, downloads and hydrates a large file, and prints by how many MiB the resident memory grew at most.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { openFsBackend } from '../src/driver.ts'

const [bucket = '', path = '', local = ''] = process.argv.slice(2)
const backend = await openFsBackend(objectStoreConfig({ backend: 'fs', bucket }), { logger: silentLogger })
await backend.put('small', import.meta.filename)
const residentMib = (): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024
const before = residentMib()
let peak = before
const onProgress = (): void => void (peak = Math.max(peak, residentMib()))
await backend.put('s/large', path, { onProgress })
await backend.get('s/large', join(local, 'got'), { onProgress })
await backend.hydrate('s', join(local, 'hydrated'), { onProgress })
await backend.close()
process.stdout.write(String(peak - before))
