// Ends while a call on the bucket hangs inside a system call.
import { writeFileSync } from 'node:fs'
import { objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { openFsBackend } from '../src/driver.ts'

const [bucket = '', path = '', marker = '', fifo = ''] = process.argv.slice(2)
const hang = { op: 'put', fifo } as const
const backend = await openFsBackend(
  objectStoreConfig({ backend: 'fs', bucket }),
  { logger: silentLogger },
  { hang, patienceMs: 100 },
)
backend.put('k', path).catch(() => undefined)
await backend.close()
process.on('exit', () => writeFileSync(marker, 'all done'))
