// Downloads an object to a disk that takes no more, and prints the code of the failure.
import { isNexusError, ObjectStore, objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { openGcsBackend } from '../src/driver.ts'

const [endpoint = '', bucket = '', key = '', path = ''] = process.argv.slice(2)
const config = objectStoreConfig({ backend: 'gcs', bucket, endpoint })
const store = new ObjectStore(await openGcsBackend(config, { logger: silentLogger }), { name: 'gcs' })
const error: unknown = await store.get(key, path).catch((thrown: unknown) => thrown)
await store.close()
process.stdout.write(isNexusError(error) ? error.code : String(error))
