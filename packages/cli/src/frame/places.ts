import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import process from 'node:process'
import { configFromObject, loadConfigFile, nearName, type LoadedConfig } from '@nexus/engine/config'
import { isNexusError, NexusError } from '@nexus/errors'
import { inspectSession, listSessions, type InspectedSession } from '@nexus/inspect'
import { openObjectStore, type ObjectStore } from '@nexus/objectstore'
import { loadModule } from '../load-module.ts'
import { modulesOf, type GlobalOptions } from './global-options.ts'

/** Where sessions are: the directory of this machine, and the object store if one is configured. */
export interface Places {
  readonly loaded: LoadedConfig
  readonly sessionsRoot: string
  /** Opened when it is first asked for; undefined when none is configured. */
  readonly openStore: () => Promise<ObjectStore | undefined>
  close(): Promise<void>
}

/** The configuration that the command line names, or the defaults. Modules are loaded first. */
export async function loadConfiguration(globals: GlobalOptions): Promise<LoadedConfig> {
  for (const module of modulesOf(globals, process.env)) await loadModule(module)
  return globals.config === undefined ? await configFromObject({}) : await loadConfigFile(globals.config)
}

/** @param note hears what drivers warn of */
export async function openPlaces(globals: GlobalOptions, note: (text: string) => void): Promise<Places> {
  const loaded = await loadConfiguration(globals)
  const { sessions, objectStore } = loaded.config.core
  const logger = {
    debug() {},
    info() {},
    warn: (_: object, text = '') => note(text),
    error: (_: object, text = '') => note(text),
  }
  let opening: Promise<ObjectStore> | undefined
  return {
    loaded,
    sessionsRoot: globals.root === undefined ? sessions.root : join(resolve(globals.root), 'sessions'),
    openStore: async () => {
      if (objectStore === undefined) return undefined
      opening ??= openObjectStore(objectStore, { logger })
      return await opening
    },
    close: async () => (await opening?.catch(() => undefined))?.close(),
  }
}

/** Opens a session for reading; names one that is like it when there is none. */
export async function openForReading(
  places: Places,
  id: string,
  from: 'local' | 'store' | undefined,
  signal: AbortSignal,
): Promise<InspectedSession> {
  const { sessionsRoot, openStore } = places
  // What is here is read without asking the store.
  const isHere = from !== 'store' && existsSync(join(sessionsRoot, id))
  const store = isHere || from === 'local' ? undefined : await openStore()
  try {
    return await inspectSession(id, {
      sessionsRoot,
      signal,
      ...(store === undefined ? {} : { store }),
      ...(from === undefined ? {} : { from }),
    })
  } catch (error) {
    if (!isNexusError(error, 'NOT_FOUND')) throw error
    throw await withSuggestion(error, id, sessionsRoot, store)
  }
}

async function withSuggestion(
  error: NexusError,
  id: string,
  sessionsRoot: string,
  store: ObjectStore | undefined,
): Promise<NexusError> {
  const known = await listSessions({ sessionsRoot, ...(store === undefined ? {} : { store }) }).catch(() => [])
  const near = nearName(
    id,
    known.map((session) => session.id),
  )
  if (near === undefined) return error
  return new NexusError('NOT_FOUND', `${error.message}. Did you mean ${near}?`, {
    op: 'cli.open',
    key: id,
    cause: error,
  })
}
