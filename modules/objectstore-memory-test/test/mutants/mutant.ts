import type { Backend } from '@nexus/objectstore'
import type { SuiteOptions } from '@nexus/objectstore-contract'
import { MemoryBackend } from '../../src/driver.ts'

/** A backend with one fault, and the cases that must notice it. */
export interface Mutant {
  /** What is wrong with it. */
  name: string
  /** Every case named here must fail on it. */
  killedBy: readonly string[]
  open: () => Backend
  /** What the suite is told of the store. */
  options?: SuiteOptions
  /** How long its case may take, where its fault is to be slow. */
  timeoutMs?: number
}

/** A mutant whose fault is in some methods of the memory backend. */
export function mutant(
  name: string,
  killedBy: readonly string[],
  change: (backend: MemoryBackend) => Partial<Record<keyof Backend, unknown>>,
): Mutant {
  return {
    name,
    killedBy,
    open: () => {
      const healthy = new MemoryBackend()
      const broken = new MemoryBackend({ objects: healthy.objects })
      return Object.assign<Backend, object>(broken, change(healthy))
    },
  }
}

/** Stores bytes as if they had been put. */
export function keep(backend: MemoryBackend, key: string, bytes: Buffer): void {
  backend.objects.set(key, { bytes, modTime: new Date() })
}

/** The stored bytes of a key, or none. */
export function kept(backend: MemoryBackend, key: string): Buffer | undefined {
  return backend.objects.get(key)?.bytes
}

/** Lets everything else that is ready run first. */
export function pause(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
