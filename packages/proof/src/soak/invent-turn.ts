import type { Piece } from './content.ts'
import type { Deed, Turn } from './deed.ts'
import type { SeededRandom } from './seeded-random.ts'
import { after, parentsOf, type SessionState } from './session-state.ts'

/** Names to write to; some are directories of others at other times. */
const PATHS = [
  'a.txt',
  'b.bin',
  'notes.md',
  'x',
  'x/inner.txt',
  'x/y/z.txt',
  'docs/one.md',
  'docs/two.md',
  'docs/deep/er/three.bin',
  'with space & 100%2B+#?.txt',
  '\u00e9.md',
  'e\u0301.md',
  `${'long-'.repeat(49)}0123456789`,
  '__proto__',
  '..two-dots',
]
const DIRS = ['empty', 'empty/inside', 'docs/deep/void', 'x']
const LINKS = ['latest', 'docs/loop', 'dangling']
const TARGETS = ['a.txt', '..', '/nowhere/at/all', 'docs/one.md']
const FILE_MODES = [0o600, 0o644, 0o755, 0o400]
const DIR_MODES = [0o700, 0o755, 0o750]
const MEDIA_TYPES = ['text/plain', 'application/octet-stream', 'image/png']

type Inventor = (state: SessionState, random: SeededRandom) => Deed | undefined

function pieceOf(random: SeededRandom, mostBytes: number): Piece {
  const roll = random.next()
  const sizeBytes = roll < 0.05 ? 0 : Math.floor(mostBytes * roll ** 3)
  return { seed: random.between(1, 2 ** 31), sizeBytes }
}

/** Whether a file or link can be there: no directory of that name, and only directories above. */
function isFree(state: SessionState, path: string): boolean {
  return (
    !state.dirs.has(path) &&
    !state.links.has(path) &&
    parentsOf(path).every((parent) => !state.files.has(parent) && !state.links.has(parent))
  )
}

const INVENTORS: readonly Inventor[] = [
  (state, random) => {
    const path = random.pick(PATHS)
    return isFree(state, path) ? { do: 'write', path, piece: pieceOf(random, 64 * 1024) } : undefined
  },
  (state, random) => {
    const path = random.pick(PATHS)
    // A file that its owner may not write to is replaced by a write, but not appended to.
    const isWritable = ((state.files.get(path)?.mode ?? 0o600) & 0o200) !== 0
    return isFree(state, path) && isWritable ? { do: 'append', path, piece: pieceOf(random, 3 * 1024) } : undefined
  },
  ({ files }, random) => {
    const path = random.pick([...files.keys()])
    return path === undefined ? undefined : { do: 'delete', path }
  },
  ({ links }, random) => {
    const path = random.pick([...links.keys()])
    return path === undefined ? undefined : { do: 'unlink', path }
  },
  (state, random) => {
    const path = random.pick([...state.files.keys()])
    const to = random.pick(PATHS)
    return path !== undefined && path !== to && isFree(state, to) ? { do: 'rename', path, to } : undefined
  },
  ({ files, dirs }, random) => {
    const path = random.pick([...files.keys(), ...dirs.keys()])
    if (path === undefined) return undefined
    return { do: 'chmod', path, mode: random.pick(dirs.has(path) ? DIR_MODES : FILE_MODES) }
  },
  (state, random) => {
    const path = random.pick(LINKS)
    return isFree(state, path) && !state.files.has(path)
      ? { do: 'link', path, target: random.pick(TARGETS) }
      : undefined
  },
  (state, random) => {
    const path = random.pick(DIRS)
    const clear = isFree(state, `${path}/x`) && !state.files.has(path) && !state.dirs.has(path)
    return clear ? { do: 'make-dir', path } : undefined
  },
  ({ dirs, files, links }, random) => {
    const used = new Set([...files.keys(), ...links.keys(), ...dirs.keys()].flatMap(parentsOf))
    const path = random.pick([...dirs.keys()].filter((dir) => !used.has(dir)))
    return path === undefined ? undefined : { do: 'remove-dir', path }
  },
  (_state, random) => ({
    do: 'put-row',
    id: `row-${random.between(1, 12)}`,
    text: 'x'.repeat(random.between(0, 2_000)) + random.next(),
  }),
  ({ rows }, random) => {
    const id = random.pick([...rows.keys()])
    return id === undefined ? undefined : { do: 'delete-row', id }
  },
  (_state, random) => ({ do: 'put-value', key: `key-${random.between(1, 5)}`, text: String(random.next()) }),
  (_state, random) => ({
    do: 'put-blob',
    piece: pieceOf(random, 100 * 1024),
    mediaType: random.pick(MEDIA_TYPES),
  }),
]

const MOST_DEEDS = 10

/** Makes up a turn that can be done in a state. */
export function inventTurn(id: string, state: SessionState, random: SeededRandom): Turn {
  const deeds: Deed[] = [{ do: 'say', text: `user: ${id}` }]
  let now = state
  for (let left = random.between(0, MOST_DEEDS); left > 0; left -= 1) {
    const deed = random.pick(INVENTORS)(now, random)
    if (deed === undefined) continue
    deeds.push(deed)
    now = after(now, deed)
  }
  deeds.push({ do: 'say', text: `assistant: ${id}, ${deeds.length} deeds` })
  return { id, deeds }
}
