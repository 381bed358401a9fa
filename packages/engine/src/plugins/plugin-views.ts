import type { JournalWriter } from '@nexus/journal'
import type { Storage } from '@nexus/storage'
import type { SessionWorkspace } from '../session/workspace.ts'

const SESSION = {
  calls: [
    'writeFile',
    'readFile',
    'appendFile',
    'listFiles',
    'fileExists',
    'deleteFile',
    'announceWrite',
    'announceAppend',
    'pluginDir',
    'blobStore',
    'meta',
  ],
  values: ['id', 'dir', 'contextDir', 'filesDir', 'blobsDir', 'metadataDir'],
} as const
const STORAGE = {
  calls: ['get', 'put', 'delete', 'list', 'tx', 'reader'],
  values: ['scope', 'pluginId', 'path', 'isOpen', 'db'],
} as const
const JOURNAL = { calls: ['subscribeProjection'], values: ['lastSeq'] } as const

interface Members<T> {
  readonly calls: readonly (keyof T)[]
  readonly values: readonly (keyof T)[]
}
type View<T, M extends Members<T>> = Readonly<Pick<T, M['calls'][number] | M['values'][number]>>

/** The session's files as a plugin sees them: the engine alone opens, announces as, and closes them. */
export type PluginSession = View<SessionWorkspace, typeof SESSION>

/** A plugin's database: everything but closing it, which is the engine's to do. */
export type PluginStorage = View<Storage, typeof STORAGE>

/** What of the journal a plugin sees: what was written, never a way to write past the bus. */
export type PluginJournal = View<JournalWriter, typeof JOURNAL>

/** What of the journal an embedder sees: its position, its barrier, projections. Events get there by way of the bus. */
export type SessionJournal = PluginJournal & Readonly<Pick<JournalWriter, 'barrier'>>

export function viewSession(session: SessionWorkspace): PluginSession {
  return viewOf(session, SESSION)
}

export function viewStorage(storage: Storage): PluginStorage {
  return viewOf(storage, STORAGE)
}

export function viewJournal(journal: JournalWriter): PluginJournal {
  return viewOf(journal, JOURNAL)
}

/** An object with these members of another, which itself stays out of reach. */
function viewOf<T extends object, M extends Members<T>>(target: T, { calls, values }: M): View<T, M> {
  const view = {} as Record<PropertyKey, unknown>
  for (const name of calls) {
    view[name] = (...args: unknown[]): unknown => Reflect.apply(target[name] as () => unknown, target, args)
  }
  for (const name of values) Object.defineProperty(view, name, { enumerable: true, get: () => target[name] })
  return Object.freeze(view) as View<T, M>
}
