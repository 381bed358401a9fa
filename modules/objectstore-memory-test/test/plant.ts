import type { Plant } from '@nexus/objectstore-contract'
import { MemoryBackend } from '../src/driver.ts'

/** Plants in a memory backend, or in a mutant of one. */
export const plant: Plant = (backend, key, content) => {
  if (!(backend instanceof MemoryBackend)) throw new TypeError('only a memory backend can be planted in')
  backend.plant(key, content)
}
