import { stringify } from 'yaml'
import { ConfigError, type ConfigPath, type ConfigProblem } from './document/problem.ts'
import type { ConfigInput } from './engine-config.ts'

const MAX_DEPTH = 64

/**
 * Writes a configuration object as YAML, so that it is read, checked and kept like one from a file.
 *
 * @throws ConfigError for what YAML can't hold: functions, class instances, cycles
 */
export function serializeConfig(input: ConfigInput, label: string): string {
  const problems: ConfigProblem[] = []
  const open = new Set<unknown>()
  const check = (value: unknown, path: ConfigPath): void => {
    if (typeof value === 'function' || typeof value === 'symbol') {
      problems.push({ path, message: `is a ${typeof value}, which a configuration can't hold` })
    }
    if (typeof value !== 'object' || value === null) return
    const prototype: unknown = Object.getPrototypeOf(value)
    if (!Array.isArray(value) && prototype !== Object.prototype && prototype !== null) {
      problems.push({ path, message: 'is an instance of a class; give a plain object' })
    } else if (open.has(value) || path.length > MAX_DEPTH) {
      problems.push({
        path,
        message: open.has(value) ? 'contains itself' : `is nested deeper than ${MAX_DEPTH} levels`,
      })
    } else {
      open.add(value)
      for (const [name, child] of Object.entries(value))
        check(child, [...path, Array.isArray(value) ? Number(name) : name])
      open.delete(value)
    }
  }
  check(input, [])
  if (problems.length > 0) throw new ConfigError(label, problems)
  return stringify(input, { version: '1.2', schema: 'core', aliasDuplicateObjects: false, lineWidth: 0 })
}
