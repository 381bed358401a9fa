import { describe, expect, it } from 'vitest'
import { TestHost } from '../test-host.ts'

/** Ends a run that stores nothing when nothing is new. Gives the commits that there are then. */
async function commitsAfterClose(work: (host: TestHost) => void): Promise<number> {
  const host = await TestHost.boot({ layoutName: 'versioned' })
  await host.turn('t1', () => host.write('files/large.txt', 'line\n'.repeat(40_000)))
  work(host)
  await host.durability.detachInputs()
  await host.journal.close()
  await host.storage.closeAll()
  await host.durability.finish({ clean: true, onlyIfNew: true })
  host.bus.close()
  await host.storage.dispose()
  return [...host.backend.objects.keys()].filter((key) => key.includes('/commits/')).length
}

describe('closing a versioned session', () => {
  it('commits nothing when all files, also those of many chunks, are as they were committed', async () => {
    expect(await commitsAfterClose(() => undefined)).toBe(2)
  })

  it('commits once more when one of them differs, if not in size', async () => {
    const last = 'line\n'.repeat(39_999).concat('LINE\n')
    expect(await commitsAfterClose((host) => host.write('files/large.txt', last))).toBe(3)
  })
})
