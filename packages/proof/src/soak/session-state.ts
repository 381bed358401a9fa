import { createHash } from 'node:crypto'
import { bytesOf, type Piece } from './content.ts'
import type { Deed } from './deed.ts'

/** A file, as the pieces that were written to it. */
export interface FileNode {
  mode: number
  pieces: readonly Piece[]
}

/** What a session holds, as a model without any disk. Never changed once made. */
export interface SessionState {
  files: ReadonlyMap<string, FileNode>
  links: ReadonlyMap<string, string>
  /** Modes. */
  dirs: ReadonlyMap<string, number>
  rows: ReadonlyMap<string, string>
  values: ReadonlyMap<string, string>
  /** sha256 → media type and size. */
  blobs: ReadonlyMap<string, string>
  history: readonly string[]
  /** Ids of the turns that ended. */
  ends: readonly string[]
}

export const EMPTY_STATE: SessionState = {
  files: new Map(),
  links: new Map(),
  dirs: new Map(),
  rows: new Map(),
  values: new Map(),
  blobs: new Map(),
  history: [],
  ends: [],
}

const NEW_FILE_MODE = 0o600
const NEW_DIR_MODE = 0o700

const facts = new WeakMap<FileNode, { sizeBytes: number; sha256: string }>()

/** Size and digest of a file's bytes. */
export function factsOf(node: FileNode): { sizeBytes: number; sha256: string } {
  let known = facts.get(node)
  if (known === undefined) {
    const hash = createHash('sha256')
    let sizeBytes = 0
    for (const piece of node.pieces) {
      hash.update(bytesOf(piece))
      sizeBytes += piece.sizeBytes
    }
    known = { sizeBytes, sha256: hash.digest('hex') }
    facts.set(node, known)
  }
  return known
}

/** The directories above a path, outermost first. */
export function parentsOf(path: string): string[] {
  const parents: string[] = []
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) parents.push(path.slice(0, at))
  return parents
}

/** The state after a deed. */
export function after(state: SessionState, deed: Deed): SessionState {
  switch (deed.do) {
    case 'say':
      return { ...state, history: [...state.history, deed.text] }
    case 'write':
    case 'append':
      return withFile(state, deed)
    case 'delete':
      return { ...state, files: without(state.files, deed.path) }
    case 'unlink':
      return { ...state, links: without(state.links, deed.path) }
    case 'rename':
      return renamed(state, deed.path, deed.to)
    case 'chmod':
      return withMode(state, deed.path, deed.mode)
    case 'link':
      return { ...withParents(state, deed.path), links: new Map(state.links).set(deed.path, deed.target) }
    case 'make-dir':
      return withParents(state, `${deed.path}/`)
    case 'remove-dir':
      return { ...state, dirs: without(state.dirs, deed.path) }
    case 'put-row':
      return { ...state, rows: new Map(state.rows).set(deed.id, deed.text) }
    case 'delete-row':
      return { ...state, rows: without(state.rows, deed.id) }
    case 'put-value':
      return { ...state, values: new Map(state.values).set(deed.key, deed.text) }
    default:
      return withBlob(state, deed.piece, deed.mediaType)
  }
}

/** The state when a turn has ended. */
export function ended(state: SessionState, turnId: string): SessionState {
  return { ...state, ends: [...state.ends, turnId] }
}

function withFile(state: SessionState, deed: Extract<Deed, { do: 'write' | 'append' }>): SessionState {
  const { path, piece } = deed
  const before = state.files.get(path)
  const pieces = deed.do === 'append' && before !== undefined ? [...before.pieces, piece] : [piece]
  const node = { mode: before?.mode ?? NEW_FILE_MODE, pieces }
  return { ...withParents(state, path), files: new Map(state.files).set(path, node) }
}

function withParents(state: SessionState, path: string): SessionState {
  const missing = parentsOf(path).filter((parent) => !state.dirs.has(parent))
  if (missing.length === 0) return state
  const dirs = new Map(state.dirs)
  for (const parent of missing) dirs.set(parent, NEW_DIR_MODE)
  return { ...state, dirs }
}

function renamed(state: SessionState, path: string, to: string): SessionState {
  const node = state.files.get(path)
  if (node === undefined) return state
  return { ...withParents(state, to), files: new Map(without(state.files, path)).set(to, node) }
}

function withMode(state: SessionState, path: string, mode: number): SessionState {
  const node = state.files.get(path)
  if (node !== undefined) return { ...state, files: new Map(state.files).set(path, { ...node, mode }) }
  return { ...state, dirs: new Map(state.dirs).set(path, mode) }
}

function withBlob(state: SessionState, piece: Piece, mediaType: string): SessionState {
  const { sha256, sizeBytes } = factsOf({ mode: NEW_FILE_MODE, pieces: [piece] })
  if (state.blobs.has(sha256)) return state
  return { ...state, blobs: new Map(state.blobs).set(sha256, `${mediaType} ${sizeBytes}`) }
}

function without<T>(map: ReadonlyMap<string, T>, key: string): ReadonlyMap<string, T> {
  const rest = new Map(map)
  rest.delete(key)
  return rest
}
