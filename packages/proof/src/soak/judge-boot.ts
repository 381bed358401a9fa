import type { SessionModel } from './session-model.ts'
import { EMPTY_STATE, factsOf, type FileNode, type SessionState } from './session-state.ts'
import { differences, fileEntry, own, viewOf, type SessionView } from './session-view.ts'

/** What a host says when it is up. */
export interface BootReport {
  view: SessionView
  /** The tree that was there was set aside, and the session restored. */
  setAside: boolean
  /** Paths of `session.hydrate.mixed`; the generation is 0 where there was no manifest. */
  mixed?: { generation: number; paths: string[] }
  /** The store could not be asked which tree is true. */
  undecided: boolean
}

/** What the model makes of it. */
export interface BootVerdict {
  /** What the session goes on from. */
  state: SessionState
  /** The number of the newest commit that it derives from. */
  knows: number
  hydrated: boolean
  /** Empty when all is well. */
  problems: string[]
}

/**
 * Judges what a host found when it resumed: the last acknowledged turn exactly; or a later one whose commit was begun and
 * not answered; on a host that has its own tree, whatever that holds. What is reported as mixed may be of a later turn.
 */
export function judgeBoot(model: SessionModel, host: string, report: BootReport): BootVerdict {
  const tree = model.trees.get(host)
  const hydrated = tree === undefined || report.setAside
  const problems = tree === undefined ? [] : judgeChoice(model, host, report)
  const found = hydrated ? judgeHydrated(model, report) : judgeLocal(model, host, report)
  if (tree?.murky === true && found.problems.length > 0) {
    const other = hydrated ? judgeLocal(model, host, report) : judgeHydrated(model, report)
    if (other.problems.length === 0) return { ...other, hydrated, problems }
  }
  return { ...found, hydrated, problems: [...problems, ...found.problems] }
}

/** Whether the host was right to use, or not to use, the tree it had. */
function judgeChoice(model: SessionModel, host: string, { setAside, undecided }: BootReport): string[] {
  const tree = model.trees.get(host)
  if (tree === undefined || tree.murky) return []
  const overtaken = model.overtaken(host, tree)
  const mayBeTorn = tree.rebooted && !tree.clean
  if (setAside) {
    return overtaken === 'no' && !mayBeTorn ? ['its tree was set aside, and nobody else had committed'] : []
  }
  if (undecided) return []
  if (overtaken === 'certainly') return ['it went on with its own tree, and another host had committed since']
  const [stored] = model.candidates
  const hasNewer = stored === undefined || tree.states.some((state) => state.ends.length > stored.state.ends.length)
  return mayBeTorn && !hasNewer ? ['it went on with a tree that may be torn and has nothing newer'] : []
}

type Found = Omit<BootVerdict, 'hydrated'>

function judgeLocal(model: SessionModel, host: string, { view, undecided }: BootReport): Found {
  const tree = model.trees.get(host)
  const states = tree?.states ?? []
  // A kill between making a directory and what goes into it is between no two deeds.
  const loose = states.length > 1
  const isTrusted = !undecided && tree?.murky === false
  if (isTrusted) model.disproveOthers(host)
  const knows = isTrusted ? model.newest : (tree?.knows ?? 0)
  return { ...closest(states, view, (state) => (loose ? withDirsOf(view, viewOf(state)) : viewOf(state))), knows }
}

function judgeHydrated(model: SessionModel, report: BootReport): Found {
  const { view, mixed } = report
  if (mixed?.generation === 0) return judgeUnversioned(model, view)
  const blend = (state: SessionState): SessionView => blended(viewOf(state), mixed?.paths ?? [], view, model.attempts)
  const { candidates } = model
  const states = [...(model.hasCertain ? [] : [EMPTY_STATE]), ...candidates.map((commit) => commit.state)]
  const found = closest(states, view, blend, model.attempts)
  if (found.problems.length === 0) {
    model.settle(candidates.filter((commit) => differences(blend(commit.state), view).length === 0))
  }
  return { ...found, knows: model.newest }
}

/** A first snapshot that never got to its commit leaves any part of what it was to store. */
function judgeUnversioned(model: SessionModel, view: SessionView): Found {
  const problems = [...view.faults]
  if (model.hasCertain) problems.push('it found no manifest, and a turn had been committed')
  const known = new Set(
    [EMPTY_STATE, ...model.attempts].flatMap((state) => Object.entries(viewOf(state).entries).map(String)),
  )
  for (const [path, entry] of Object.entries(view.entries)) {
    // Without a manifest modes are not known.
    const isKnown = [...known].some((each) => each.startsWith(`${path},`) && contentOf(each) === contentOf(entry))
    if (!isKnown && !entry.startsWith('dir')) problems.push(`files/${path}: ${entry} was never written`)
  }
  return { state: adopted(view, model.attempts), knows: model.newest, problems }
}

function contentOf(entry: string): string {
  return entry.split(' ').slice(-2).join(' ')
}

function closest(
  states: readonly SessionState[],
  view: SessionView,
  expect: (state: SessionState) => SessionView,
  known: readonly SessionState[] = states,
): { state: SessionState; problems: string[] } {
  let best: string[] | undefined
  for (const state of states.toReversed()) {
    const problems = differences(expect(state), view)
    if (problems.length === 0) return { state: adopted(view, [state, ...known]), problems }
    if (best === undefined || problems.length < best.length) best = problems
  }
  return { state: adopted(view, known), problems: best ?? ['there is nothing that it could have found'] }
}

function withDirsOf(view: SessionView, expected: SessionView): SessionView {
  const entries = Object.entries(expected.entries).filter(([, entry]) => !entry.startsWith('dir '))
  const dirs = Object.entries(view.entries).filter(([, entry]) => entry.startsWith('dir '))
  return { ...expected, entries: Object.fromEntries([...entries, ...dirs]) }
}

const HISTORY = 'context/conversation.jsonl'
const DATABASE = /^plugins\/.*\/store\.db$/
const JOURNAL = /^journal\//

/** What was committed, with what is reported as mixed taken from what was found, where a later state really had that. */
function blended(
  committed: SessionView,
  mixed: readonly string[],
  found: SessionView,
  attempts: readonly SessionState[],
): SessionView {
  const later = attempts.map(viewOf)
  const entries = { ...committed.entries }
  for (const path of mixed.filter((each) => each.startsWith('files/')).map((each) => each.slice('files/'.length))) {
    const [, mode] = (own(entries, path) ?? '').split(' ')
    const overwritten = later.map((view) => own(view.entries, path)).filter((entry) => entry?.startsWith('file '))
    const match = overwritten.find((entry) => contentOf(entry ?? '') === contentOf(own(found.entries, path) ?? ''))
    if (match !== undefined) entries[path] = `file ${mode} ${contentOf(match)}`
  }
  const view = { ...committed, entries }
  if (mixed.includes(HISTORY) && later.some((each) => same(each.history, found.history))) view.history = found.history
  if (mixed.some((path) => DATABASE.test(path)) && later.some((each) => sameDatabase(each, found))) {
    Object.assign(view, { rows: found.rows, values: found.values, blobs: found.blobs })
  }
  if (mixed.some((path) => JOURNAL.test(path))) view.ends = found.ends
  return view
}

function sameDatabase(a: SessionView, b: SessionView): boolean {
  return (
    differences(
      { ...a, entries: {}, history: [], ends: [], faults: [] },
      { ...b, entries: {}, history: [], ends: [], faults: [] },
    ).length === 0
  )
}

function same(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item, at) => item === b[at])
}

/** The state that a host found, with files as the model knows them by their digests. */
export function adopted(view: SessionView, known: readonly SessionState[]): SessionState {
  const nodes = new Map<string, FileNode>()
  for (const state of known) {
    for (const node of state.files.values()) nodes.set(contentOf(fileEntry(node.mode, factsOf(node))), node)
  }
  const files = new Map<string, FileNode>()
  const links = new Map<string, string>()
  const dirs = new Map<string, number>()
  for (const [path, entry] of Object.entries(view.entries)) {
    const [kind, detail = ''] = entry.split(' ')
    if (kind === 'link') links.set(path, entry.slice('link '.length))
    else if (kind === 'dir') dirs.set(path, Number.parseInt(detail, 8))
    else {
      const node = nodes.get(contentOf(entry))
      if (node !== undefined) files.set(path, { ...node, mode: Number.parseInt(detail, 8) })
    }
  }
  return {
    files,
    links,
    dirs,
    rows: new Map(Object.entries(view.rows)),
    values: new Map(Object.entries(view.values)),
    blobs: new Map(Object.entries(view.blobs)),
    history: view.history,
    ends: view.ends,
  }
}
