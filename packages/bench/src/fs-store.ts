import type { ConfigInput } from '@nexus/engine'
// oxlint-disable-next-line import/no-unassigned-import -- registers itself as `fs`
import '@nexus/objectstore-fs'

/** The configuration of a store in a directory. */
export function fsStore(bucket: string): NonNullable<ConfigInput['core']> {
  return { object_store: { backend: 'fs', bucket } }
}
