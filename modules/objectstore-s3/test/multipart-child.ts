// Uploads a large file in parts and is killed by its parent in the middle.
import { objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { openS3Backend } from '../src/driver.ts'

const [endpoint = '', credentialsFile = '', stateDirectory = '', path = ''] = process.argv.slice(2)
const options = { state_directory: stateDirectory, concurrency: 2 }
const config = objectStoreConfig({ backend: 's3', bucket: 'bucket', endpoint, credentialsFile, options })
const backend = await openS3Backend(config, { logger: silentLogger })
await backend.put('s/large', path, { onProgress: () => process.send?.('progress') })
