import { describe, expect, it } from 'vitest'
import type { Deed, Turn } from './deed.ts'
import { judgeBoot, type BootReport } from './judge-boot.ts'
import { SessionModel } from './session-model.ts'
import { after, EMPTY_STATE, ended, type SessionState } from './session-state.ts'
import { viewOf } from './session-view.ts'

function turnOf(number: number): Turn {
  const deeds: Deed[] = [
    { do: 'say', text: `user ${number}` },
    { do: 'write', path: 'a.txt', piece: { seed: number, sizeBytes: 10 * number } },
    { do: 'put-row', id: `row-${number}`, text: 'text' },
  ]
  return { id: `turn-${number}`, deeds }
}

/** The state after so many turns. */
function stateAfter(turns: number): SessionState {
  let state = EMPTY_STATE
  for (let number = 1; number <= turns; number += 1) {
    for (const deed of turnOf(number).deeds) state = after(state, deed)
    state = ended(state, `turn-${number}`)
  }
  return state
}

function found(state: SessionState, more: Partial<BootReport> = {}): BootReport {
  return { view: viewOf(state), setAside: false, undecided: false, ...more }
}

/** Host `a` has run so many turns, each of them stored and acknowledged, and was killed. */
function ranOnA(turns: number): SessionModel {
  const model = new SessionModel()
  model.booted('a', EMPTY_STATE, 0)
  for (let number = 1; number <= turns; number += 1) {
    model.turnEnded(turnOf(number))
    model.committing('a')
    model.committed('a')
  }
  model.died('a', [])
  return model
}

/** One more turn on the running host, whose commit is begun and not answered. */
function unanswered(model: SessionModel, host: string, number: number): void {
  model.turnEnded(turnOf(number))
  model.committing(host)
  model.died(host, [])
}

/** `b` resumes what is stored and adds a turn, acknowledged. */
function takenOverByB(model: SessionModel, number: number): void {
  model.booted('b', stateAfter(number - 1), model.newest)
  model.turnEnded(turnOf(number))
  model.committing('b')
  model.committed('b')
  model.stopped('b', { clean: true })
}

describe('a host that never saw the session', () => {
  it('must find the last acknowledged turn, exactly', () => {
    expect(judgeBoot(ranOnA(2), 'b', found(stateAfter(2)))).toMatchObject({ hydrated: true, problems: [] })
    expect(judgeBoot(ranOnA(2), 'b', found(stateAfter(1))).problems).not.toEqual([])
    expect(judgeBoot(ranOnA(2), 'b', found(stateAfter(3))).problems).not.toEqual([])
    expect(judgeBoot(ranOnA(2), 'b', found(EMPTY_STATE)).problems).not.toEqual([])
  })

  it('may find a turn whose commit was begun and not answered, and then it counts', () => {
    for (const turns of [2, 3]) {
      const model = ranOnA(2)
      unanswered(model, 'a', 3)
      expect(judgeBoot(model, 'b', found(stateAfter(turns))).problems).toEqual([])
      expect(model.candidates).toHaveLength(1)
    }
    const settled = ranOnA(2)
    unanswered(settled, 'a', 3)
    judgeBoot(settled, 'b', found(stateAfter(3)))
    expect(judgeBoot(settled, 'c', found(stateAfter(2))).problems).not.toEqual([])
  })

  it('may find either of two commits that look the same, and the machine of either may be right', () => {
    const model = ranOnA(2)
    model.booted('b', stateAfter(2), 2)
    model.committing('b')
    model.died('b', [])
    expect(judgeBoot(model, 'c', found(stateAfter(2))).problems).toEqual([])
    expect(judgeBoot(model, 'a', found(stateAfter(2), { setAside: true })).problems).toEqual([])
    expect(judgeBoot(model, 'a', found(stateAfter(2))).problems).toEqual([])
  })

  it('must not find a turn whose commit was not begun', () => {
    const model = ranOnA(2)
    model.turnEnded(turnOf(3))
    model.died('a', [])
    expect(judgeBoot(model, 'b', found(stateAfter(3))).problems).not.toEqual([])
  })

  it.each([
    ['a changed file', { entries: { 'a.txt': 'file 600 20 0000' } }],
    ['a mode', { entries: { 'a.txt': viewOf(stateAfter(2)).entries['a.txt']?.replace('600', '644') ?? '' } }],
    ['a file too many', { entries: { ...viewOf(stateAfter(2)).entries, 'b.txt': 'file 600 1 0000' } }],
    ['a missing row', { rows: {} }],
    ['a missing line', { history: ['user 1'] }],
    ['a turn that the journal ends twice', { ends: ['turn-1', 'turn-2', 'turn-2'] }],
    ['a damaged journal', { faults: ['journal: 1 damaged lines'] }],
  ])('must not find %s', (_what, change) => {
    const view = { ...viewOf(stateAfter(2)), ...change }
    expect(judgeBoot(ranOnA(2), 'b', { view, setAside: false, undecided: false }).problems).not.toEqual([])
  })

  it('may find what is reported as mixed of a later turn, and nothing else of it', () => {
    const later = viewOf(stateAfter(3))
    const view = { ...viewOf(stateAfter(2)), entries: later.entries }
    const judge = (paths: string[]): string[] => {
      const model = ranOnA(2)
      unanswered(model, 'a', 3)
      return judgeBoot(model, 'b', { view, setAside: false, undecided: false, mixed: { generation: 2, paths } })
        .problems
    }
    expect(judge(['files/a.txt'])).toEqual([])
    expect(judge(['plugins/nexus.proof.worker/store.db'])).not.toEqual([])
    expect(judge([])).not.toEqual([])
  })

  it('must find in a mixed database the rows of one later turn, not some of each', () => {
    const judge = (rows: Record<string, string>): string[] => {
      const model = ranOnA(1)
      unanswered(model, 'a', 2)
      const view = { ...viewOf(stateAfter(1)), rows }
      const mixed = { generation: 1, paths: ['plugins/nexus.proof.worker/store.db'] }
      return judgeBoot(model, 'b', { view, setAside: false, undecided: false, mixed }).problems
    }
    expect(judge({ 'row-1': 'text', 'row-2': 'text' })).toEqual([])
    expect(judge({ 'row-2': 'text' })).not.toEqual([])
  })

  it('must not call a session unversioned that was committed', () => {
    const report = found(stateAfter(2), { mixed: { generation: 0, paths: [] } })
    expect(judgeBoot(ranOnA(2), 'b', report).problems[0]).toContain('no manifest')
  })
})

describe('a host with a tree of its own', () => {
  it('goes on with it, half a turn and all', () => {
    const model = ranOnA(2)
    model.booted('a', stateAfter(2), model.newest)
    model.died('a', [turnOf(3)])
    let state = stateAfter(2)
    for (const deed of turnOf(3).deeds) {
      state = after(state, deed)
      expect(judgeBoot(model, 'a', found(state))).toMatchObject({ hydrated: false, problems: [] })
    }
    expect(judgeBoot(model, 'a', found(stateAfter(1))).problems).not.toEqual([])
  })

  it('must not set it aside while nobody else has committed', () => {
    expect(judgeBoot(ranOnA(2), 'a', found(stateAfter(2), { setAside: true })).problems).toHaveLength(1)
  })

  it('must set it aside when another host has committed, unless it could not ask', () => {
    const overtaken = (): SessionModel => {
      const model = ranOnA(2)
      takenOverByB(model, 3)
      return model
    }
    expect(judgeBoot(overtaken(), 'a', found(stateAfter(2))).problems).toHaveLength(1)
    expect(judgeBoot(overtaken(), 'a', found(stateAfter(3), { setAside: true })).problems).toEqual([])
    const blind = judgeBoot(overtaken(), 'a', found(stateAfter(2), { undecided: true }))
    expect(blind).toMatchObject({ problems: [], knows: 2 })
  })

  it('must not trust it after a power loss, unless it was ended cleanly or has turns that were never stored', () => {
    const torn = ranOnA(2)
    torn.rebooted('a')
    expect(judgeBoot(torn, 'a', found(stateAfter(2))).problems).toHaveLength(1)
    expect(judgeBoot(torn, 'a', found(stateAfter(2), { setAside: true })).problems).toEqual([])

    const clean = ranOnA(2)
    clean.stopped('a', { clean: true })
    clean.rebooted('a')
    expect(judgeBoot(clean, 'a', found(stateAfter(2))).problems).toEqual([])

    const newer = ranOnA(2)
    newer.turnEnded(turnOf(3))
    newer.died('a', [])
    newer.rebooted('a')
    expect(judgeBoot(newer, 'a', found(stateAfter(3))).problems).toEqual([])
  })
})
