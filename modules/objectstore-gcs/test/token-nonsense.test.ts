import { join } from 'node:path'
import { openGoogleCredentials } from '@nexus/objectstore-emulators/google-credentials'
import { openLoopbackServer } from '@nexus/objectstore-emulators/http'
import { expect, it } from 'vitest'
import { openTestBucket } from './test-bucket.ts'

it.each(['{}', '{"access_token":null}'])(
  'a token endpoint that answers %s is an outage, and nothing is sent',
  async (text) => {
    const nonsense = await openLoopbackServer(async (request, response) => {
      request.resume()
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(text)
    })
    const credentials = await openGoogleCredentials()
    const bucket = await openTestBucket()
    try {
      const path = join(bucket.directory, 'key.json')
      credentials.writeServiceAccountKey(path)
      const options = { retry_timeout_ms: 0 }
      const backend = await bucket.open({ credentialsFile: path, options }, { tokenUrl: nonsense.url })
      const error: unknown = await backend.list('').catch((thrown: unknown) => thrown)
      expect(backend.classify(error)).toBe('temporary')
      expect(bucket.emulator.log).toEqual([])
    } finally {
      await bucket.remove()
      await credentials.close()
      await nonsense.close()
    }
  },
)
