import { objectStoreConfig } from '@nexus/objectstore'
import { describeBackendContract } from '@nexus/objectstore-contract'
import { it } from 'vitest'
import { openS3Backend } from '../src/driver.ts'
import { describeOnGateway, gateway } from './gateway.ts'
import { silentLogger } from './silent-logger.ts'

let bucket: string

describeBackendContract(
  async () => {
    bucket = (await gateway?.newBucket()) ?? ''
    const { endpoint = '', credentialsFile = '' } = gateway ?? {}
    const config = objectStoreConfig({ backend: 's3', bucket, endpoint, credentialsFile })
    return openS3Backend(config, { logger: silentLogger })
  },
  {
    describe: describeOnGateway,
    it,
    title: 's3 backend on a real store',
    plant: async (_backend, key, content) => void (await gateway?.client.putObject(bucket, key, Buffer.from(content))),
  },
)
