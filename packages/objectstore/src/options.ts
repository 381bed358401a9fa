import { configError } from './config.ts'

/** Reads one option's value. Throws with {@link OptionProblem}; `parseOptions` adds the name. */
export type OptionReader<T> = (value: unknown) => T

/** What is wrong with an option's value, as a clause that follows its name: `is not a whole number`. */
export class OptionProblem extends Error {
  constructor(problem: string) {
    super(problem)
    this.name = 'OptionProblem'
  }
}

/** What {@link parseOptions} gives for a table of readers: each value typed, absent where it was not configured. */
export type ParsedOptions<Readers extends Record<string, OptionReader<unknown>>> = {
  [Name in keyof Readers]?: ReturnType<Readers[Name]>
}

/**
 * Validates the `options` map strictly, the same way in every driver: an unknown option fails, named, with the nearest
 * allowed one and the whole list; a wrong value fails naming the option and what it must be, never what it was.
 *
 * @param driver the driver's name, for messages
 * @param readers the allowed options by their YAML names
 * @throws NexusError `INVALID_ARGUMENT` with `key` `core.object_store.options.<name>`
 */
export function parseOptions<Readers extends Record<string, OptionReader<unknown>>>(
  driver: string,
  options: Readonly<Record<string, unknown>>,
  readers: Readers,
): ParsedOptions<Readers> {
  const parsed: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(options)) {
    const reader = Object.hasOwn(readers, name) ? readers[name] : undefined
    if (reader === undefined) throw configError(`options.${name}`, unknownOption(driver, name, Object.keys(readers)))
    if (value === undefined || value === null) continue
    try {
      parsed[name] = reader(value)
    } catch (error) {
      if (error instanceof OptionProblem) throw configError(`options.${name}`, error.message)
      throw error
    }
  }
  return parsed as ParsedOptions<Readers>
}

/** A string that is not empty. */
export function stringOption(): OptionReader<string> {
  return (value) => {
    if (typeof value !== 'string' || value === '') throw new OptionProblem('must be a string that is not empty')
    return value
  }
}

/** `true` or `false`; the words as strings are refused, because `"false"` is truthy in the wrong hands. */
export function booleanOption(): OptionReader<boolean> {
  return (value) => {
    if (typeof value !== 'boolean') throw new OptionProblem('must be true or false')
    return value
  }
}

/** A whole number within the bounds, both included. */
export function integerOption({
  min = 0,
  max = Number.MAX_SAFE_INTEGER,
}: { min?: number; max?: number } = {}): OptionReader<number> {
  return (value) => {
    if (!Number.isSafeInteger(value) || (value as number) < min || (value as number) > max) {
      const range = max === Number.MAX_SAFE_INTEGER ? `from ${min}` : `from ${min} to ${max}`
      throw new OptionProblem(`must be a whole number ${range}`)
    }
    return value as number
  }
}

/** One of the given strings. */
export function oneOfOption<const T extends string>(...allowed: readonly T[]): OptionReader<T> {
  return (value) => {
    if (!allowed.includes(value as T)) throw new OptionProblem(`must be one of ${allowed.join(', ')}`)
    return value as T
  }
}

/** An absolute http or https URL. */
export function urlOption(): OptionReader<URL> {
  return (value) => {
    const url = typeof value === 'string' && URL.canParse(value) ? new URL(value) : undefined
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
      throw new OptionProblem('must be an absolute http or https URL')
    }
    return url
  }
}

/**
 * Reads the `endpoint` of the block: undefined when empty, else its URL.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming the key
 */
export function parseEndpoint(endpoint: string): URL | undefined {
  if (endpoint === '') return undefined
  try {
    return urlOption()(endpoint)
  } catch (error) {
    throw configError('endpoint', error instanceof Error ? error.message : 'is not a URL')
  }
}

function unknownOption(driver: string, name: string, allowed: readonly string[]): string {
  if (allowed.length === 0) return `is not an option of backend "${driver}", which has none`
  const near = nearest(name, allowed)
  const hint = near === undefined ? '' : `; did you mean ${near}?`
  return `is not an option of backend "${driver}"${hint} (allowed: ${allowed.toSorted().join(', ')})`
}

function nearest(name: string, allowed: readonly string[]): string | undefined {
  let best: string | undefined
  let bestDistance = Math.max(2, Math.floor(name.length / 3)) + 1
  for (const candidate of allowed) {
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase())
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance]
  }
  return best
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const substitution = previous[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      row.push(Math.min(previous[j]! + 1, row[j - 1]! + 1, substitution))
    }
    previous = row
  }
  return previous[b.length]!
}
