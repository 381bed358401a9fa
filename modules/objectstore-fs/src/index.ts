import { register } from '@nexus/objectstore'
import { openFsBackend } from './driver.ts'

// Importing this module is the whole wiring; see ./driver.ts for a route without the registry.
register('fs', openFsBackend)
