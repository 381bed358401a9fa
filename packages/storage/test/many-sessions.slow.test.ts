import { expect, it } from 'vitest'
import { startChild } from './child.ts'
import { tempDir } from './temp-dir.ts'

it('a thousand open sessions cost 4 descriptors each, 450 MiB and 16 threads at most, copies included', async () => {
  const child = startChild('many-sessions-child.ts', [tempDir(), '1000'])
  expect(await child.ended).toBe(0)
  const [{ rssMiB, threads, descriptors }] = child.messages as [Record<'rssMiB' | 'threads' | 'descriptors', number>]
  // The process itself and the loader of its sources take some 80 of them.
  expect(rssMiB).toBeLessThanOrEqual(450)
  expect(threads).toBeLessThanOrEqual(16)
  // What Node itself has open, and what the two threads do.
  expect(descriptors).toBeLessThanOrEqual(4 * 1000 + 100)
})
