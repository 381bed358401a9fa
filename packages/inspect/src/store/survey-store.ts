import { isNexusError } from '@nexus/errors'
import { isSessionId, sealedSegmentNumber } from '@nexus/durability/names'
import { layoutInStore } from '@nexus/durability/tools'
import { forEachBounded, type ObjectInfo, type ObjectStore } from '@nexus/objectstore'
import { Scratch } from '../read/scratch.ts'

const CONCURRENCY = 8

/** An object that no commit names. */
export interface OrphanObject {
  readonly key: string
  readonly sizeBytes: number
  readonly modifiedMs?: number
  /** A resume may still take it: blobs and sealed journal segments mend what an interrupted commit left. */
  readonly mayMend: boolean
}

/** What a store has of one session. */
export interface SurveyedSession {
  readonly id: string
  /** Of a versioned session the objects are counted, and nothing is checked. */
  readonly layout: 'mirror' | 'versioned'
  /** Undefined without a commit, and for a versioned session. */
  readonly generation?: number
  readonly objects: number
  readonly bytes: number
  readonly orphans: readonly OrphanObject[]
  /** What a check finds wrong. */
  readonly problems: readonly string[]
}

/** What is in a store. */
export interface StoreSurvey {
  readonly sessions: readonly SurveyedSession[]
  /** Databases of the app and agent scope, evaluation runs and whatever else is there, by first name. */
  readonly others: Readonly<Record<string, { objects: number; bytes: number }>>
}

interface ObjectsOfSession {
  /** Those of the mirror layout that hold its files. */
  tree: ObjectInfo[]
  isVersioned: boolean
  objects: number
  bytes: number
}

const SIBLING = /^(.+?)(\.manifest|\.owner|\.snapshot\.json|\.v)?$/

/**
 * Lists a whole store once and reads every manifest: how much each session takes, what no commit names, and whether the
 * objects that a commit names are there in their size. Reads no file of a session. Versioned sessions are only counted.
 *
 * @throws the store's own error
 */
export async function surveyStore(store: ObjectStore, signal?: AbortSignal): Promise<StoreSurvey> {
  const bySession = new Map<string, ObjectsOfSession>()
  const others: Record<string, { objects: number; bytes: number }> = {}
  for (const object of await store.list('', signal === undefined ? {} : { signal })) {
    const [first = '', name = ''] = object.key.split('/')
    const [, id, sibling] = SIBLING.exec(name) ?? []
    const known = first === 'sessions' && isSessionId(id)
    const sum = known
      ? (bySession.get(id) ?? { tree: [], isVersioned: false, objects: 0, bytes: 0 })
      : (others[first] ?? { objects: 0, bytes: 0 })
    sum.objects += 1
    sum.bytes += object.size
    if (!known) others[first] = sum
    else {
      const session = sum as ObjectsOfSession
      if (sibling === undefined) session.tree.push(object)
      if (sibling === '.v' && object.key.startsWith(`${first}/${name}/commits/`)) session.isVersioned = true
      bySession.set(id, session)
    }
  }
  const sessions: SurveyedSession[] = []
  const scratch = new Scratch()
  try {
    await forEachBounded(
      [...bySession],
      CONCURRENCY,
      async ([id, { tree, isVersioned, objects, bytes }], _at, laneSignal) => {
        if (isVersioned) sessions.push({ id, layout: 'versioned', objects, bytes, orphans: [], problems: [] })
        else
          sessions.push({
            id,
            layout: 'mirror',
            objects,
            bytes,
            ...(await judge(store, id, tree, scratch.dir, laneSignal)),
          })
      },
      signal,
    )
  } finally {
    await scratch.remove()
  }
  return { sessions: sessions.toSorted((a, b) => (a.id < b.id ? -1 : 1)), others }
}

async function judge(
  store: ObjectStore,
  id: string,
  tree: readonly ObjectInfo[],
  scratchDir: string,
  signal: AbortSignal,
): Promise<Pick<SurveyedSession, 'generation' | 'orphans' | 'problems'>> {
  const prefix = `sessions/${id}/`
  try {
    const committed = await (await layoutInStore(store, id, scratchDir)).committed(signal)
    const sizes = new Map(tree.map(({ key, size }) => [key.slice(prefix.length), size]))
    const named = new Set(committed?.objects)
    const orphans = tree
      .toSorted((a, b) => (a.key < b.key ? -1 : 1))
      .filter(({ key }) => !named.has(key.slice(prefix.length)))
      .map((object) => orphan(object, prefix))
    const problems: string[] = []
    for (const path of named) {
      const [size, wanted] = [sizes.get(path), committed?.entries[path]?.size]
      if (size === undefined) problems.push(`${path} is missing`)
      // Longer ones may be what an interrupted commit appended to: they are cut back.
      else if (wanted !== undefined && size < wanted) problems.push(`${path} has ${size} of ${wanted} bytes`)
    }
    return { ...(committed === undefined ? {} : { generation: committed.generation }), orphans, problems }
  } catch (error) {
    signal.throwIfAborted()
    if (!isNexusError(error, 'CORRUPT') && !isNexusError(error, 'UNSUPPORTED')) throw error
    // Nothing counts as an orphan of a commit that can't be read.
    return { orphans: [], problems: [error.message] }
  }
}

function orphan({ key, size, modTime }: ObjectInfo, prefix: string): OrphanObject {
  const path = key.slice(prefix.length)
  const mayMend = path.startsWith('blobs/') || sealedSegmentNumber(path) !== undefined
  return { key, sizeBytes: size, mayMend, ...(modTime === undefined ? {} : { modifiedMs: modTime.getTime() }) }
}
