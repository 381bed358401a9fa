import { expect, it } from 'vitest'
import { serializeOwnerMarker, type OwnerMarker } from '../src/owner/owner-marker.ts'
import { SessionOwner } from '../src/owner/owner.ts'
import { keepingLogger } from '@nexus/host/testing'
import { newDir, newStore, plant, until } from './memory-store.ts'

it('a conflict that lasts is reported once, not at every heartbeat', async () => {
  const { store, backend, clock } = newStore()
  const conflicts: OwnerMarker[] = []
  const owner = new SessionOwner({
    store,
    sessionId: 's1',
    sessionsRoot: newDir('owner'),
    identity: { host: 'a', pid: 100, instanceId: 'ours', processStartedAtMs: clock.now() - 1_000 },
    clock,
    logger: keepingLogger(),
    heartbeatMs: 30_000,
    staleMs: 300_000,
    confirm: async () => undefined,
    onConflict: (holder) => void conflicts.push(holder),
    isRunning: () => false,
  })
  await owner.claim()
  owner.start()
  const heartbeatAt = new Date(clock.now() + 60_000).toISOString()
  const theirs = { sessionId: 's1', host: 'b', pid: 7, instanceId: 'theirs', claimedAt: heartbeatAt, heartbeatAt }
  plant(backend, 'sessions/s1.owner/owner.json', serializeOwnerMarker(theirs, 'sessions/s1'))
  for (let beat = 1; beat <= 3; beat += 1) {
    await clock.advance(30_000)
    await until(() => clock.pendingTimers === 1, 'the end of the heartbeat')
  }
  expect(conflicts.map(({ instanceId }) => instanceId)).toEqual(['theirs'])
  await owner.stop()
})
