import { open } from 'node:fs/promises'
import { homedir } from 'node:os'
import { fromSystemError } from '@nexus/errors'
import type { ConfigPath, ConfigProblem } from './document/problem.ts'
import type { ConfigInput, EngineConfig } from './engine-config.ts'
import type { Environment } from './document/environment.ts'
import { absolutePath } from './file-path.ts'

/** A configuration, validated, with the text it came from. */
export interface LoadedConfig {
  readonly config: EngineConfig
  /** Character for character what was given, environment variables unexpanded; serialised when it was an object. */
  readonly text: string
  /** The file it came from, if it was one. */
  readonly path: string | undefined
  /** The file's name without its extension; empty without a file. */
  readonly profile: string
  /** What its author should know although it is in force: old names of keys. */
  readonly warnings: readonly string[]
  /**
   * A problem of the value at a path: with its place in the text, if it came from one, and with a message that shows nothing
   * of what a variable in the block of that plugin gave.
   */
  readonly problemAt: (path: ConfigPath, message: string) => ConfigProblem
}

/** How a configuration is read. */
export interface ParseConfigOptions {
  /** Where the text comes from; named in messages. */
  readonly path?: string
  /** The embedder brings a backend himself: `core.object_store` then needs neither a name nor a bucket. Default false. */
  readonly backendGiven?: boolean
  /** Default: `process.env`. */
  readonly env?: Environment
  /** What `~` stands for. Default: the user's home directory. */
  readonly home?: string
  /** What relative paths start at. Default: the working directory. */
  readonly cwd?: string
}

const MAX_READ_BYTES = 2 ** 20 + 1

/**
 * Reads a configuration file.
 *
 * @throws NexusError `NOT_FOUND`, `PERMISSION` or `LOCAL_IO` when it can't be read; else as {@link parseConfig}
 */
export async function loadConfigFile(path: string, options: ParseConfigOptions = {}): Promise<LoadedConfig> {
  const base = { home: options.home ?? homedir(), cwd: options.cwd ?? process.cwd() }
  const absolute = absolutePath(path, base)
  return parseConfig(await readBounded(absolute), { ...options, path: absolute })
}

/**
 * Reads a configuration from YAML 1.2.
 *
 * @throws ConfigError with every problem in one message, code `INVALID_ARGUMENT`; `DRIVER_MISSING` when all that is wrong
 *   is that the named backend is not registered
 * @see docs/reference/configuration.md
 */
export async function parseConfig(
  textOrBytes: string | Uint8Array,
  options: ParseConfigOptions = {},
): Promise<LoadedConfig> {
  const { readConfigText } = await import('./read-config.ts')
  return readConfigText(textOrBytes, options)
}

/**
 * Takes a configuration as an object with the keys of the YAML file.
 *
 * @throws ConfigError as {@link parseConfig}
 */
export async function configFromObject(input: ConfigInput, options: ParseConfigOptions = {}): Promise<LoadedConfig> {
  const { readConfigObject } = await import('./read-config.ts')
  return readConfigObject(input, options)
}

/** Reads no more than the limit and one byte, whatever the path turns out to be. */
async function readBounded(path: string): Promise<Uint8Array> {
  try {
    const file = await open(path, 'r')
    try {
      const buffer = Buffer.alloc(MAX_READ_BYTES)
      let filled = 0
      while (filled < buffer.length) {
        const { bytesRead } = await file.read(buffer, filled, buffer.length - filled)
        if (bytesRead === 0) break
        filled += bytesRead
      }
      return buffer.subarray(0, filled)
    } finally {
      await file.close()
    }
  } catch (error) {
    throw fromSystemError(error, 'config.load', path)
  }
}
