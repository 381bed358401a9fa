import { describe, expect, it } from 'vitest'
import { TestHost } from '../../test/test-host.ts'

const MANIFEST = 'sessions/s1.manifest/manifest.json'

/** Calls of a turn that overwrites something, in order, from a failpoint on. */
async function callsFrom(failpoint: string): Promise<string[]> {
  let from = 0
  const host: TestHost = await TestHost.boot({
    failpoint: (name) => {
      if (name === failpoint) from = host.backend.faults.calls.length
    },
  })
  await host.turn('t1')
  await host.turn('t2')
  const calls = host.backend.faults.calls.slice(from).map(({ op, key }) => `${op} ${key}`)
  await host.stop()
  return calls
}

describe('who committed last', () => {
  it('is asked right before the first put that overwrites', async () => {
    const [first, second] = await callsFrom('snapshot:before-overwriting')
    expect(first).toBe(`get ${MANIFEST}`)
    expect(second).toMatch(/^put sessions\/s1\//)
  })

  it('is asked right before the manifest', async () => {
    expect((await callsFrom('snapshot:before-manifest')).slice(0, 2)).toEqual([`get ${MANIFEST}`, `put ${MANIFEST}`])
  })

  it('is not asked again for the marker by a host that has not stood still', async () => {
    expect((await callsFrom('snapshot:manifest-put')).some((call) => call.startsWith('get'))).toBe(false)
  })
})
