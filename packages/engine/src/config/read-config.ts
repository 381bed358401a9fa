import { homedir } from 'node:os'
import { basename, extname } from 'node:path'
import { ConfigError } from './config-problem.ts'
import type { ConfigInput } from './engine-config.ts'
import type { LoadedConfig, ParseConfigOptions } from './load.ts'
import { serializeConfig } from './serialize-config.ts'
import { validateConfig } from './validate-config.ts'
import { pathKey, readYaml } from './yaml-document.ts'

/** What a configuration text may weigh. */
const MAX_CONFIG_BYTES: number = 2 ** 20

/** What this host decides, whatever a session's stored configuration says. */
const HOST_KEYS: ReadonlySet<string> = new Set(
  [
    ['core', 'log_level'],
    ['core', 'agent_id'],
    ['core', 'sessions', 'root'],
    ['core', 'storage', 'root'],
    ['core', 'object_store'],
  ].map(pathKey),
)

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
  // It has no UTF-8 form: the copy that the session keeps would not be the text that was read.
  if (/\p{Surrogate}/u.test(text))
    throw new ConfigError(label, [{ path: [], message: 'holds half of a surrogate pair' }])
  const stored = options.storedInSession ?? false
  const document = readYaml(text, {
    environment: options.env ?? process.env,
    ...(stored ? { leaveOut: HOST_KEYS } : {}),
  })
  const config = validateConfig(document, label, {
    home: options.home ?? homedir(),
    cwd: options.cwd ?? process.cwd(),
    backendGiven: options.backendGiven ?? false,
    checkBackend: !stored,
    showPositions,
  })
  return {
    config,
    text,
    path: options.path,
    profile: options.path === undefined ? '' : basename(options.path, extname(options.path)),
    locate: showPositions ? document.locate : () => undefined,
  }
}

function decode(textOrBytes: string | Uint8Array, label: string): string {
  const sizeBytes = typeof textOrBytes === 'string' ? Buffer.byteLength(textOrBytes) : textOrBytes.byteLength
  if (sizeBytes > MAX_CONFIG_BYTES) {
    throw new ConfigError(label, [{ path: [], message: `is ${sizeBytes} bytes; at most ${MAX_CONFIG_BYTES} are read` }])
  }
  if (typeof textOrBytes === 'string') return textOrBytes
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
