import { CONFIG_KEYS, configRows, isConfigKey, type ConfigBlock, type ConfigKey } from './config-keys.ts'

/** A JSON Schema document, or a part of one. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** The JSON Schema (2020-12) of the configuration file, for editors; the engine validates by the table itself. */
export function configJsonSchema(): JsonSchema {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Nexus configuration',
    ...blockSchema(CONFIG_KEYS),
  }
}

function blockSchema(block: ConfigBlock): JsonSchema {
  const properties: Record<string, JsonSchema> = {}
  for (const [name, row] of configRows(block)) {
    if (name !== '*') properties[name] = isConfigKey(row) ? keySchema(row) : blockSchema(row)
  }
  const rest = block['*']
  return {
    type: ['object', 'null'],
    properties,
    additionalProperties: rest !== undefined && isConfigKey(rest) ? keySchema(rest) : false,
  }
}

/** A key may also be left empty, and filled from the environment. */
function keySchema(key: ConfigKey): JsonSchema {
  const about = {
    description: key.doc,
    ...('default' in key ? { default: key.default } : {}),
    ...(key.kind === 'replaced' ? { deprecated: true } : {}),
  }
  return { ...about, anyOf: [valueOf(key), { type: 'string', pattern: '\\$\\{' }, { type: 'null' }] }
}

function valueOf(key: ConfigKey): JsonSchema {
  switch (key.kind) {
    case 'string':
      return { type: 'string', ...(key.pattern === undefined ? {} : { pattern: key.pattern }) }
    case 'boolean':
    case 'replaced':
      return { type: 'boolean' }
    case 'integer':
      return { type: 'integer', minimum: key.min, maximum: key.max }
    case 'number':
    case 'mebibytes':
      return { type: 'number', minimum: key.min, maximum: key.max }
    case 'duration':
      return {
        anyOf: [{ type: 'string', pattern: '^\\s*(?:\\d+(?:\\.\\d+)?(?:ms|s|m|h|d))+\\s*$' }, { enum: ['0', 0] }],
      }
    case 'choice':
      return { enum: key.of.filter((word) => key.notYet?.includes(word) !== true) }
    case 'list':
      return { type: 'array', items: { type: 'string', minLength: 1 } }
    case 'map':
      return { type: 'object' }
    default:
      return { type: 'string' }
  }
}
