import { backends, registered, validateKeyPrefix } from '@nexus/objectstore'
import { CONFIG_KEYS } from './config-keys.ts'
import { formatConfigPath, type ConfigPath, type ConfigProblem } from './document/problem.ts'
import { nearName } from './near-name.ts'
import { isMap } from './value-schema.ts'
import { pathKey, type ConfigDocument } from './document/yaml-document.ts'

const BLOCK: ConfigPath = ['core', 'object_store']

/**
 * What the keys of `core.object_store` demand of each other; their own types are the table's business.
 *
 * @param backendGiven the embedder brings a backend himself: the block then needs neither a name nor a bucket
 */
export function objectStoreProblems(
  block: unknown,
  { unexpanded }: Pick<ConfigDocument, 'unexpanded'>,
  backendGiven: boolean,
): ConfigProblem[] {
  if (!isMap(block)) return []
  const problems: ConfigProblem[] = []
  const report = (key: string, message: string): void => void problems.push({ path: [...BLOCK, key], message })
  const values = new Map(Object.entries(block).filter(([, value]) => isSaid(value)))
  const backend = values.get('backend')

  const fault = prefixFault(values.get('prefix'), unexpanded.get(pathKey([...BLOCK, 'prefix'])))
  if (fault !== undefined) report('prefix', fault)
  for (const [key, message] of layoutFaults(values)) report(key, message)
  if (backendGiven) return problems
  if (backend === undefined) {
    for (const key of values.keys()) {
      report(key, `has no effect without ${formatConfigPath([...BLOCK, 'backend'])}; name a backend, or remove the key`)
    }
    return problems
  }
  if (values.get('bucket') === undefined) report('bucket', 'is required with a backend')
  if (typeof backend === 'string' && !registered(backend)) {
    const path = [...BLOCK, 'backend']
    problems.push({ path, message: missingBackend(backend, unexpanded.get(pathKey(path))), code: 'DRIVER_MISSING' })
  }
  return problems
}

/** What the layouts can't do. */
function layoutFaults(values: ReadonlyMap<string, unknown>): [key: string, message: string][] {
  const faults: [string, string][] = []
  const layout = values.get('layout') ?? CONFIG_KEYS.core.object_store.layout.default
  if (layout === 'versioned') {
    if (values.get('ownership') === 'detect') {
      faults.push([
        'ownership',
        'can not be detect under layout versioned, where a boot or the first commit claims the session; use claim, lazy or refuse, or ' +
          'leave it out',
      ])
    }
    if (values.get('on_lost') === 'overwrite') {
      faults.push(['on_lost', 'can not be overwrite under layout versioned: no commit is ever overwritten; use stop'])
    }
    if (values.get('stale_local') === 'keep') {
      faults.push([
        'stale_local',
        'can not be keep under layout versioned: a commit on an older tree is refused; use set-aside or refuse',
      ])
    }
  } else if (layout === 'mirror' && (values.get('ownership') ?? 'detect') !== 'detect') {
    faults.push(['ownership', 'can only be detect under layout mirror, where nothing keeps a host from writing'])
  }
  return faults
}

/** @param written the text, where it holds variables: what they gave is not shown */
function missingBackend(name: string, written: string | undefined): string {
  const present = backends()
  const named = `names a backend that is not registered: ${written ?? name}.`
  if (present.length === 0) {
    const example = written === undefined ? `, e.g. import '@nexus/objectstore-${name}'` : ''
    return `${named} None is, because no backend module was imported; import one before the configuration is loaded${example}`
  }
  const near = written === undefined ? nearName(name, present) : undefined
  const meant = near === undefined ? '' : ` Did you mean ${near}?`
  return `${named}${meant} Registered: ${present.join(', ')}. Mend the name, or import the module that registers it`
}

function prefixFault(prefix: unknown, written: string | undefined): string | undefined {
  if (typeof prefix !== 'string') return undefined
  if (prefix.startsWith('/') || prefix.endsWith('/')) return 'must not begin or end with "/"'
  try {
    validateKeyPrefix(prefix)
    return undefined
  } catch (error) {
    if (written !== undefined) return `is no object key; what ${written} gives is not`
    return `is no object key: ${error instanceof Error ? error.message : String(error)}`
  }
}

/** An empty text or map is what a profile writes that is filled from the environment; it counts as left out. */
function isSaid(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return false
  return typeof value !== 'object' || Object.keys(value).length > 0
}
