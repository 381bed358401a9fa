import * as v from 'valibot'
import { isAlwaysJournaled } from '../bus/events.ts'
import type { ConfigKey } from './config-keys.ts'
import { parseDuration } from './duration.ts'
import { absolutePath, pathFault, type PathBase } from './file-path.ts'

/** What is said of a value that should hold keys. */
export const NOT_A_MAP = 'must be a map of keys'

const MIB = 2 ** 20
const text = v.string('must be text; quote it if it looks like a number or a truth value')

/** What checks the written value of a key, and gives it as the engine takes it. A message continues the name of the key. */
export function valueSchema(key: ConfigKey, base: PathBase): v.GenericSchema {
  switch (key.kind) {
    case 'string':
      return key.pattern === undefined ? text : v.pipe(text, v.regex(new RegExp(key.pattern), `must ${key.must}`))
    case 'path':
      return pathSchema(key.default, base)
    case 'boolean':
      return v.boolean('must be true or false')
    case 'integer':
    case 'number':
    case 'mebibytes': {
      const must = `must be a ${key.kind === 'integer' ? 'whole number' : 'number'} from ${key.min} to ${key.max}`
      const number = v.pipe(v.number(must), v.minValue(key.min, must), v.maxValue(key.max, must))
      if (key.kind === 'integer') return v.pipe(number, v.integer(must))
      return key.kind === 'number'
        ? number
        : v.pipe(
            number,
            v.transform((mib) => Math.round(mib * MIB)),
          )
    }
    case 'duration':
      return durationSchema(key.min, key.max)
    case 'choice': {
      const { of, notYet = [] } = key
      const ready = of.filter((word) => !notYet.includes(word)).join(' or ')
      return v.pipe(
        v.picklist(of, `must be one of ${of.join(', ')}`),
        v.check(
          (word) => !notYet.includes(word),
          ({ input }) => `${input} is not available in this version; write ${ready}`,
        ),
      )
    }
    case 'list':
      return listSchema(key.of)
    case 'replaced':
      return v.pipe(
        v.boolean('must be true or false'),
        v.transform((old) => key.values[String(old)]),
      )
    default:
      return v.custom<Record<string, unknown>>(isMap, NOT_A_MAP)
  }
}

/** An absolute path; an empty one is allowed where the default is empty. */
function pathSchema(fallback: string, base: PathBase): v.GenericSchema {
  return v.pipe(
    text,
    v.rawTransform(({ dataset, addIssue, NEVER }) => {
      if (dataset.value === '' && fallback === '') return ''
      const fault = pathFault(dataset.value)
      if (fault === undefined) return absolutePath(dataset.value, base)
      addIssue({ message: fault })
      return NEVER
    }),
  )
}

/** A duration, in milliseconds. The limits are written as durations too. */
function durationSchema(min: string, max: string): v.GenericSchema {
  const must = 'must be a duration such as 30d, 12h, 5m, 10s or 250ms'
  const [minMs, maxMs] = [parseDuration(min), parseDuration(max)] as [number, number]
  return v.pipe(
    v.union([v.string(), v.literal(0)], must),
    v.rawTransform(({ dataset, addIssue, NEVER }): number => {
      const parsedMs = parseDuration(String(dataset.value))
      if (parsedMs === undefined) addIssue({ message: must })
      else if (parsedMs < minMs || parsedMs > maxMs) addIssue({ message: `must be from ${min} to ${max}` })
      else return parsedMs
      return NEVER
    }),
  )
}

function listSchema(of: string): v.GenericSchema {
  const item = v.pipe(text, v.nonEmpty(`is empty; the list holds ${of}`))
  const checked =
    of === 'event types'
      ? v.pipe(
          item,
          v.check((type) => !isAlwaysJournaled(type), 'is always journaled: resuming a session is built on it'),
        )
      : item
  return v.array(checked, `must be a list of ${of}`)
}

/** Whether a value holds keys. */
export function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
