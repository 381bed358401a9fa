import type { ObjectStore } from '@nexus/objectstore'
import type { Context } from './context.ts'
import { UsageError } from '../usage-error.ts'

/** The configured object store. */
export async function requireStore(context: Context): Promise<ObjectStore> {
  const store = await (await context.places()).openStore()
  if (store !== undefined) return store
  throw new UsageError(
    'no object store is configured: give --config with a file that has one, and --import its backend',
  )
}
