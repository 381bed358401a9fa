// Uploads a file in small chunks, until it is done or killed.
import { objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { openGcsBackend } from '../src/driver.ts'

const [endpoint = '', bucket = '', key = '', path = ''] = process.argv.slice(2)
const options = { resumable_threshold: 1, chunk_size: 256 * 1024 }
const config = objectStoreConfig({ backend: 'gcs', bucket, endpoint, options })
const backend = await openGcsBackend(config, { logger: silentLogger })
await backend.put(key, path)
await backend.close()
