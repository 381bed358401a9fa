import { NexusError, type ErrorCode } from '@nexus/errors'

/** Keys and list indexes from the top of the configuration. */
export type ConfigPath = readonly (string | number)[]

/** A place in a text, both from 1. */
export interface TextPosition {
  readonly line: number
  readonly column: number
}

/** One thing that is wrong with a configuration. */
export interface ConfigProblem {
  /** Empty for a problem of the text as such. */
  readonly path: ConfigPath
  /** Says what is wrong and what would be right. Never holds a value that came from the environment. */
  readonly message: string
  /** Where it tells the caller something else than that the configuration is wrong. */
  readonly code?: ErrorCode
  readonly position?: TextPosition | undefined
}

const MAX_SHOWN = 50

/** A configuration that can't be used, with everything that is wrong with it. */
export class ConfigError extends NexusError {
  /** In the order of the text. */
  readonly problems: readonly ConfigProblem[]

  /** @param label names the configuration in messages, usually its path */
  constructor(
    label: string,
    problems: readonly ConfigProblem[],
    code: ErrorCode = 'INVALID_ARGUMENT',
    cause?: unknown,
  ) {
    const sorted = problems.toSorted((a, b) => order(a) - order(b))
    const count = sorted.length === 1 ? 'one problem' : `${sorted.length} problems`
    const lines = sorted.slice(0, MAX_SHOWN).map((problem) => `  ${describe(label, problem)}`)
    if (sorted.length > MAX_SHOWN) lines.push(`  ... and ${sorted.length - MAX_SHOWN} more`)
    super(code, `${label} has ${count}:\n${lines.join('\n')}`, { op: 'config.load', key: label, cause })
    this.name = 'ConfigError'
    this.problems = sorted
  }
}

/** `core.sessions.root`, `journal.exclude_events[1]`, `plugins."nexus.tool.shell".timeout`. */
export function formatConfigPath(path: ConfigPath): string {
  let text = ''
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`
    else text += (text === '' ? '' : '.') + (/^[\w-]+$/.test(part) ? part : JSON.stringify(part))
  }
  return text
}

function describe(label: string, { path, message, position }: ConfigProblem): string {
  const at = position === undefined ? '' : `${label}:${position.line}:${position.column}: `
  return path.length === 0 ? at + message : `${at}${formatConfigPath(path)}: ${message}`
}

function order({ position }: ConfigProblem): number {
  return position === undefined ? Number.MAX_SAFE_INTEGER : position.line * 2 ** 21 + position.column
}
