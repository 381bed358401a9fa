import { describe, expect, it } from 'vitest'
import {
  judgeOwner,
  parseOwnerMarker,
  serializeOwnerMarker,
  type OwnerIdentity,
  type OwnerMarker,
} from './owner-marker.ts'

const nowMs = Date.UTC(2026, 10, 29, 12)
const staleMs = 300_000
const us: OwnerIdentity = { host: 'a', pid: 100, instanceId: 'ours', processStartedAtMs: nowMs - 60_000 }

function marker(overrides: Partial<OwnerMarker> = {}): OwnerMarker {
  const at = new Date(nowMs - 10_000).toISOString()
  return { sessionId: 's1', host: 'b', pid: 7, instanceId: 'theirs', claimedAt: at, heartbeatAt: at, ...overrides }
}

function judge(held: OwnerMarker | undefined, running: readonly number[] = []) {
  return judgeOwner(held, us, {
    nowMs,
    staleMs,
    isRunning: (pid, thread) => running.includes(pid) && (thread === undefined || thread.tid === 41),
    wasAbandoned: (id) => id === 'dropped',
  })
}

describe('the verdict on an owner marker', () => {
  it.each([
    ['no marker is free', undefined, [], 'free'],
    ['our own is silent', marker({ instanceId: 'ours' }), [], 'ours'],
    ['a dead pid of this host crashed here', marker({ host: 'a' }), [], 'crashed'],
    ['our own pid and another instance is a conflict', marker({ host: 'a', pid: 100 }), [100], 'conflict'],
    [
      'a run that this process dropped is silent',
      marker({ host: 'a', pid: 100, instanceId: 'dropped' }),
      [100],
      'crashed',
    ],
    ['a running pid of this host is a conflict', marker({ host: 'a' }), [7], 'conflict'],
    ['a fresh heartbeat of another host is a conflict, whatever its pid is here', marker(), [], 'conflict'],
    [
      'a heartbeat of the future is a conflict',
      marker({ heartbeatAt: new Date(nowMs + 3_600_000).toISOString() }),
      [],
      'conflict',
    ],
    [
      'exactly five minutes is not yet old',
      marker({ heartbeatAt: new Date(nowMs - staleMs).toISOString() }),
      [],
      'conflict',
    ],
    [
      'more than five minutes is a takeover',
      marker({ heartbeatAt: new Date(nowMs - staleMs - 1).toISOString() }),
      [],
      'takeover',
    ],
    [
      'our own pid from before this process started crashed here',
      marker({ host: 'a', pid: 100, heartbeatAt: new Date(us.processStartedAtMs - 1).toISOString() }),
      [100],
      'crashed',
    ],
    [
      'a worker thread of this process that was ended crashed here',
      marker({ host: 'a', pid: 100, thread: { tid: 40, start: 1 } }),
      [100],
      'crashed',
    ],
    ['one of another process of this host, too', marker({ host: 'a', thread: { tid: 40, start: 1 } }), [7], 'crashed'],
    [
      'a worker thread that runs is a conflict',
      marker({ host: 'a', pid: 100, thread: { tid: 41, start: 1 } }),
      [100],
      'conflict',
    ],
    ['our own pid since this process started is a conflict', marker({ host: 'a', pid: 100 }), [100], 'conflict'],
  ] as const)('%s', (_name, held, running, verdict) => {
    expect(judge(held, running)).toBe(verdict)
  })
})

describe('the owner marker on the wire', () => {
  it('comes back as it was written', () => {
    const wire = serializeOwnerMarker(marker(), 'sessions/s1')
    expect(JSON.parse(wire)).toEqual({
      _schema_version: 1,
      session_id: 's1',
      key_prefix: 'sessions/s1',
      host: 'b',
      pid: 7,
      instance_id: 'theirs',
      claimed_at: marker().claimedAt,
      heartbeat_at: marker().heartbeatAt,
    })
    expect(parseOwnerMarker(Buffer.from(wire))).toEqual(marker())
    const ofThread = marker({ thread: { tid: 4, start: 5 } })
    expect(JSON.parse(serializeOwnerMarker(ofThread, 'p'))).toMatchObject({ thread: 4, thread_start: 5 })
    expect(parseOwnerMarker(Buffer.from(serializeOwnerMarker(ofThread, 'p')))).toEqual(ofThread)
  })

  it.each([
    ['nothing', ''],
    ['no JSON', '{"pid":'],
    ['no object', '[]'],
    ['null', 'null'],
    ['bytes that are not UTF-8', Buffer.from([0xff, 0xfe, 0x00])],
    ['another version', JSON.stringify({ ...JSON.parse(serializeOwnerMarker(marker(), 'p')), _schema_version: 9 })],
    ['a time that is none', serializeOwnerMarker(marker({ heartbeatAt: 'yesterday' }), 'p')],
    ['no pid', serializeOwnerMarker(marker({ pid: 1.5 }), 'p')],
  ])('refuses %s as corrupt', (_what, bytes) => {
    expect(() => parseOwnerMarker(Buffer.from(bytes))).toThrow(expect.objectContaining({ code: 'CORRUPT' }))
  })
})
