import { homedir } from 'node:os'
import { basename, extname } from 'node:path'
import { ConfigError, type ConfigPath } from './document/problem.ts'
import type { ConfigInput } from './engine-config.ts'
import type { LoadedConfig, ParseConfigOptions } from './load.ts'
import { serializeConfig } from './serialize-config.ts'
import { showsValue } from './document/environment.ts'
import { configAt, validateConfig } from './validate-config.ts'
import { pathKey, readYaml, type ConfigDocument } from './document/yaml-document.ts'

/** What a configuration text may weigh. */
const MAX_CONFIG_BYTES: number = 2 ** 20

/** The work behind `parseConfig`, apart from it so that importing the engine doesn't load a YAML parser. */
export function readConfigText(textOrBytes: string | Uint8Array, options: ParseConfigOptions): LoadedConfig {
  const label = options.path ?? 'configuration'
  return read(decode(textOrBytes, label), label, options, true)
}

/** The work behind `configFromObject`. */
export function readConfigObject(input: ConfigInput, options: ParseConfigOptions): LoadedConfig {
  const label = options.path ?? 'configuration'
  return read(decode(serializeConfig(input, label), label), label, options, false)
}

function read(text: string, label: string, options: ParseConfigOptions, showPositions: boolean): LoadedConfig {
  const document = readYaml(text, { environment: options.env ?? process.env })
  return loadedConfig(document, text, label, options, showPositions)
}

/** A document that was read, validated. */
export function loadedConfig(
  document: ConfigDocument,
  text: string,
  label: string,
  options: ParseConfigOptions,
  showPositions: boolean,
): LoadedConfig {
  const { home = homedir(), cwd = process.cwd(), backendGiven = false, path } = options
  return {
    ...validateConfig(document, label, { home, cwd, backendGiven, showPositions }),
    text,
    path,
    profile: path === undefined ? '' : basename(path, extname(path)),
    problemAt: (at, message) => {
      const problem = { path: at, message: withoutVariables(document, at, message) }
      return showPositions ? { ...problem, position: document.locate(at) } : problem
    },
  }
}

/** A plugin's schema may quote what it refuses, or what stands beside it. */
function withoutVariables({ unexpanded, value }: ConfigDocument, path: ConfigPath, message: string): string {
  const block = `${pathKey(path.slice(0, 2))}\0`
  for (const [key, written] of unexpanded) {
    if (!`${key}\0`.startsWith(block) || !showsValue(message, String(configAt(value, key.split('\0'))))) continue
    return `is refused by its schema; the reason is not shown, because it quotes what ${written} gives`
  }
  return message
}

/** The text, as it is; refuses what is too large or has no text to it. */
export function decode(textOrBytes: string | Uint8Array, label: string): string {
  const sizeBytes = typeof textOrBytes === 'string' ? Buffer.byteLength(textOrBytes) : textOrBytes.byteLength
  if (sizeBytes > MAX_CONFIG_BYTES) {
    throw new ConfigError(label, [{ path: [], message: `is ${sizeBytes} bytes; at most ${MAX_CONFIG_BYTES} are read` }])
  }
  if (typeof textOrBytes === 'string') {
    // It has no UTF-8 form: the copy that the session keeps would not be the text that was read.
    if (!/\p{Surrogate}/u.test(textOrBytes)) return textOrBytes
    throw new ConfigError(label, [{ path: [], message: 'holds half of a surrogate pair' }])
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(textOrBytes)
  } catch (cause) {
    throw new ConfigError(
      label,
      [{ path: [], message: 'is not UTF-8 text; save it as UTF-8' }],
      'INVALID_ARGUMENT',
      cause,
    )
  }
}
