import { describe, expect, it } from 'vitest'
import type { LocalJournal } from './local-journal.ts'
import type { MachineRecord } from './machine-record.ts'
import { judgeTree, type TreeEvidence } from './tree-verdict.ts'
import { StaleLocalTreeError } from './stale-local-tree-error.ts'

const ours = { generation: 5, nonce: 'aa' }
const remoteOurs = { ...ours, lastSeq: 40 }
const remoteTheirs = { generation: 7, nonce: 'ff', lastSeq: 60 }

function record(overrides: Partial<MachineRecord> = {}): MachineRecord {
  return { committed: ours, lastSeq: 40, pending: [], bootId: 'boot-1', clean: false, stored: false, ...overrides }
}

interface Case extends Partial<Omit<TreeEvidence, 'journal'>> {
  localTurnEnd?: number | undefined
  journal?: Partial<LocalJournal>
}

function judge({ journal, ...evidence }: Case) {
  const turnEnd = 'localTurnEnd' in evidence ? evidence.localTurnEnd : 40
  const local = {
    turnEnd,
    lastSeq: turnEnd === undefined ? undefined : Math.max(40, turnEnd),
    rewound: false,
    ...journal,
  }
  return judgeTree({ record: record(), bootId: 'boot-1', remote: remoteOurs, journal: local, ...evidence })
}

describe('which tree is true', () => {
  it('the local one, when the store has nothing', () => {
    expect(judge({ remote: undefined })).toEqual({ kind: 'live', why: 'never-stored' })
    expect(judge({ remote: undefined, record: undefined, bootId: 'boot-2' })).toEqual({
      kind: 'live',
      why: 'never-stored',
    })
  })

  it('the local one, when the store holds our commit and the machine was not rebooted', () => {
    expect(judge({})).toEqual({ kind: 'live', why: 'our-commit' })
  })

  it.each([
    ['gone', { turnEnd: 0, lastSeq: 0 }, false],
    ['cut short', { turnEnd: 30, lastSeq: 39 }, false],
    ['unreadable', { turnEnd: undefined, lastSeq: undefined }, true],
    ['gone, whatever was rewound before,', { turnEnd: 0, lastSeq: 0, rewound: true }, false],
  ])('the stored one, when the journal that it was committed from is %s', (_what, journal, forked) => {
    expect(judge({ journal })).toEqual({ kind: 'lost-content', forked })
    expect(judge({ journal, record: record({ clean: true }) })).toEqual({ kind: 'lost-content', forked })
  })

  it('the local one, when its journal was taken back to an earlier point', () => {
    expect(judge({ journal: { turnEnd: 20, lastSeq: 20, rewound: true } }).kind).toBe('live')
  })

  it('the local one after a reboot, when it was ended cleanly', () => {
    expect(judge({ record: record({ clean: true }), bootId: 'boot-2' })).toEqual({ kind: 'live', why: 'our-commit' })
  })

  it('the local one, when the store holds a commit of ours whose answer was lost', () => {
    const pending = [
      { generation: 6, nonce: 'bb' },
      { generation: 7, nonce: 'cc' },
    ]
    for (const pair of pending) {
      expect(
        judge({ record: record({ pending }), remote: { ...pair, lastSeq: 50 }, journal: { lastSeq: 50 } }).kind,
      ).toBe('live')
    }
  })

  it('the stored one after a reboot without a stop', () => {
    expect(judge({ bootId: 'boot-2' })).toEqual({ kind: 'torn' })
    expect(judge({ bootId: 'boot-2', localTurnEnd: undefined })).toEqual({ kind: 'torn' })
  })

  it('the local one after a reboot without a stop, when it has turns that the store never got', () => {
    expect(judge({ bootId: 'boot-2', localTurnEnd: 41 })).toEqual({ kind: 'torn-but-newer' })
  })

  it('the stored one, when another host committed', () => {
    expect(judge({ remote: remoteTheirs })).toEqual({ kind: 'stale', forked: false })
    expect(judge({ remote: remoteTheirs, record: record({ clean: true }) })).toEqual({ kind: 'stale', forked: false })
  })

  it('the stored one, when another host committed the same generation', () => {
    expect(judge({ remote: { ...remoteOurs, nonce: 'other' } }).kind).toBe('stale')
  })

  it('the stored one, when the same nonce stands under another generation', () => {
    expect(judge({ remote: { ...remoteOurs, generation: 6 } }).kind).toBe('stale')
  })

  it('calls it a fork, when the local tree has turns of its own besides', () => {
    expect(judge({ remote: remoteTheirs, localTurnEnd: 41 })).toEqual({ kind: 'stale', forked: true })
    expect(judge({ remote: remoteTheirs, localTurnEnd: undefined })).toEqual({ kind: 'stale', forked: true })
  })

  it('takes a commit that is not ours and not above our own for a fork: it was put over ours', () => {
    for (const generation of [1, remoteOurs.generation]) {
      expect(judge({ remote: { ...remoteTheirs, generation } })).toEqual({ kind: 'stale', forked: true })
    }
  })

  it('takes a tree that this machine knows nothing of for stale, and for a fork when it has turns', () => {
    expect(judge({ record: undefined })).toEqual({ kind: 'stale', forked: true })
    expect(judge({ record: undefined, localTurnEnd: 0 })).toEqual({ kind: 'stale', forked: false })
  })
})

describe('StaleLocalTreeError', () => {
  it('names both generations, the fork and the way out', () => {
    const details = { sessionId: 's1', path: '/r/s1', localGeneration: 5, remoteGeneration: 7, forked: true }
    const error = new StaleLocalTreeError(details)
    expect(error).toMatchObject({ ...details, code: 'PRECONDITION', key: '/r/s1' })
    expect(error.message).toMatch(/generation 5.*at 7.*never got.*stale_local/)
  })
})
