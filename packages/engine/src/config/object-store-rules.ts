import { backends, registered, validateKeyPrefix } from '@nexus/objectstore'
import type { ConfigPath, ConfigProblem } from './config-problem.ts'
import { nearName } from './near-name.ts'

const BLOCK: ConfigPath = ['core', 'object_store']
const NOT_YET: Readonly<Record<string, string | undefined>> = {
  layout: 'mirror',
  ownership: 'detect',
  keep_generations: undefined,
  keep_days: undefined,
}

/** What counts as a backend being there. */
export interface BackendRules {
  /** The embedder brings a backend himself: the block then needs neither a name nor a bucket. */
  readonly backendGiven: boolean
}

/** What the keys of `core.object_store` demand of each other; their own types are the schema's business. */
export function objectStoreProblems(block: unknown, { backendGiven }: BackendRules): ConfigProblem[] {
  if (typeof block !== 'object' || block === null) return []
  const problems: ConfigProblem[] = []
  const report = (key: string, message: string): void => void problems.push({ path: [...BLOCK, key], message })
  const values = new Map(Object.entries(block).filter(([, value]) => isWritten(value)))
  const backend = values.get('backend')

  for (const [key, supported] of Object.entries(NOT_YET)) {
    const value = values.get(key)
    if (value === undefined || value === supported) continue
    const only = supported === undefined ? 'leave it out' : `only ${supported} works yet`
    report(key, `is not supported by this version; ${only}`)
  }
  prefixProblem(values.get('prefix'), report)
  if (backendGiven) return problems

  if (backend === undefined) {
    for (const key of values.keys()) {
      report(key, 'has no effect without core.object_store.backend; name a backend, or remove the key')
    }
    return problems
  }
  if (values.get('bucket') === undefined) report('bucket', 'is required with a backend')
  if (typeof backend === 'string' && !registered(backend)) report('backend', missingBackend(backend))
  return problems
}

/** Whether the problem is a backend that nobody registered. */
export function isMissingBackend(problem: ConfigProblem): boolean {
  return problem.message.startsWith(MISSING)
}

const MISSING = 'names a backend that is not registered'

function missingBackend(name: string): string {
  const present = backends()
  if (present.length === 0) {
    return `${MISSING}: ${name}. None is, because no backend module was imported; import one before the configuration is loaded, e.g. import '@nexus/objectstore-${name}'`
  }
  const near = nearName(name, present)
  const meant = near === undefined ? '' : ` Did you mean ${near}?`
  return `${MISSING}: ${name}.${meant} Registered: ${present.join(', ')}. Mend the name, or import the module that registers it`
}

function prefixProblem(prefix: unknown, report: (key: string, message: string) => void): void {
  if (typeof prefix !== 'string') return
  if (prefix.startsWith('/') || prefix.endsWith('/')) return report('prefix', 'must not begin or end with "/"')
  try {
    validateKeyPrefix(prefix)
  } catch (error) {
    report('prefix', `is no object key: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** An empty text or map is what a profile writes that is filled from the environment; it counts as left out. */
function isWritten(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return false
  return typeof value !== 'object' || Object.keys(value).length > 0
}
