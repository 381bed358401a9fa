import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { acquireSessionLock } from '@nexus/host'
import { describe, expect, it } from 'vitest'
import { looksLive, type OwnerLook, refuseLiveOwner } from '../../src/owner/live-owner.ts'
import { newDir, newStore } from '../memory-store.ts'
import { type HostOptions, TestHost } from '../test-host.ts'

const MINUTE_MS = 60_000
const OWNER = 'sessions/s1.owner/owner.json'

async function boot(options: HostOptions = {}): Promise<TestHost> {
  return await TestHost.boot({ layoutName: 'versioned', ...options })
}

/** Somebody on another machine who asks about the session of a host. */
function lookAt({ backend, clock }: TestHost, more: Partial<OwnerLook> = {}): OwnerLook {
  const { store } = newStore({ of: backend, clock })
  const identity = { host: 'elsewhere', pid: 1, instanceId: 'asks', processStartedAtMs: 0 }
  return { store, sessionId: 's1', scratchDir: newDir('look'), identity, nowMs: clock.now(), ...more }
}

describe('the owner of a session', () => {
  it('looks live for ten minutes after a commit, unless that ends its run', async () => {
    const host = await boot()
    await host.turn('t1')
    expect(await looksLive(lookAt(host))).toMatchObject({ by: 'commit', host: expect.any(String) as string })
    const nowMs = host.clock.now()
    expect(await looksLive(lookAt(host, { nowMs: nowMs + 9 * MINUTE_MS }))).toMatchObject({ ageMs: 9 * MINUTE_MS })
    expect(await looksLive(lookAt(host, { nowMs: nowMs + 11 * MINUTE_MS }))).toBeUndefined()
    await host.stop()
    expect(await looksLive(lookAt(host))).toBeUndefined()
  })

  it('looks live while it beats, and beats only under refuse', async () => {
    const quiet = await boot()
    expect(quiet.backend.objects.has(OWNER)).toBe(false)
    const host = await boot({ claims: 'if-free' })
    const nowMs = host.clock.now()
    const owner = { by: 'heartbeat', pid: process.pid, ageMs: 4 * MINUTE_MS }
    expect(await looksLive(lookAt(host, { nowMs: nowMs + 4 * MINUTE_MS }))).toMatchObject(owner)
    expect(await looksLive(lookAt(host, { nowMs: nowMs + 6 * MINUTE_MS }))).toMatchObject({ by: 'commit' })
    expect(await looksLive(lookAt(host, { nowMs: nowMs + 11 * MINUTE_MS }))).toBeUndefined()
    await host.stop()
    expect(host.backend.objects.has(OWNER)).toBe(false)
    await quiet.kill()
  })

  it('looks live while its lock is held here', async () => {
    const sessionsRoot = newDir('locked')
    mkdirSync(join(sessionsRoot, 's1'))
    const lock = await acquireSessionLock(join(sessionsRoot, 's1'), { transport: 'test' })
    const { store } = newStore()
    const look = { ...lookAt(new TestHost()), store, sessionsRoot }
    expect(await looksLive(look)).toEqual({ by: 'lock', ageMs: 0 })
    lock.release()
    expect(await looksLive(look)).toBeUndefined()
  })

  it('does not look live once it is known to be gone: dropped in this process, or a process that ended on this host', async () => {
    const host = await boot({ host: 'here', pid: 4_194_303 })
    await host.turn('t1')
    const identity = { host: 'here', pid: process.pid, instanceId: 'asks', processStartedAtMs: 0 }
    expect(await looksLive(lookAt(host))).toBeDefined()
    expect(await looksLive(lookAt(host, { identity }))).toBeUndefined()
    await host.kill()
    const again = await boot({ host: 'here', claims: 'if-free', backend: host.backend, disk: host.disk })
    await again.kill()
    const third = await boot({ host: 'here', claims: 'if-free', backend: host.backend, disk: host.disk })
    await third.stop()
  })

  it('fails a boot under refuse, which names it and its age and touches nothing', async () => {
    const host = await boot()
    await host.turn('t1')
    await host.clock.advance(4 * MINUTE_MS)
    const { backend, clock } = host
    const before = [...backend.objects.keys()]
    await expect(boot({ backend, clock, claims: 'if-free' })).rejects.toMatchObject({
      name: 'SessionOwnedError',
      code: 'LOCKED',
      owner: { by: 'commit', ageMs: 4 * MINUTE_MS },
      message: expect.stringMatching(/looks open on host-of-.* made 240 s ago.*ownership/) as string,
    })
    expect([...backend.objects.keys()]).toEqual(before)
    expect(host.seen('session.owner.lost')).toEqual([])
    await host.stop()
    const free = await boot({ backend, clock, claims: 'if-free' })
    expect(free.resolution?.tree).toBe('hydrated')
    await free.stop()
  })

  it('is passed over by force', async () => {
    const host = await boot()
    await expect(refuseLiveOwner(lookAt(host))).rejects.toMatchObject({ name: 'SessionOwnedError' })
    await expect(refuseLiveOwner(lookAt(host), { force: true })).resolves.toBeUndefined()
    await host.kill()
  })
})
