import { createHash } from 'node:crypto'
import { basename, dirname } from 'node:path'
import { fromSystemError, NexusError } from '@nexus/errors'
import { holdDirectory, type HeldDirectory } from '@nexus/host'
import { CACHE_DIR, MAX_LINE_BYTES, TEMP_PREFIX } from '../format/format.ts'
import { nodeFs, readSmallFile, removeQuietly, writeFully } from '../files/journal-fs.ts'
import { encodePayload, revivePayload } from '../format/payload.ts'

const SAFE_NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/**
 * Results of tools by name and arguments, in `cache/<tool>/<sha256 of the canonical arguments>.json`, so that a replay
 * finds a result whatever the order of the calls. A cache: nothing is synced, and an unreadable entry counts as absent. Tools
 * can reach these directories, so each is opened within the one before it, never through a link.
 */
export class ToolCache {
  readonly #journalDir: string
  #temps = 0

  /** @param journalDir the journal directory */
  constructor(journalDir: string) {
    this.#journalDir = journalDir
  }

  /** The result kept for these arguments, or undefined. */
  get(tool: string, args: unknown): unknown {
    const [into, name] = [toolDir(tool), nameOf(args)]
    if (name === undefined) return undefined
    let dir: HeldDirectory | undefined
    try {
      dir = this.#hold(into)
      const bytes = readSmallFile(nodeFs, dir.at(name), MAX_LINE_BYTES)
      const entry = bytes && (JSON.parse(bytes.toString('utf8')) as { tool?: unknown; result?: unknown })
      // A file system that folds case may hand out the entry of another tool.
      return entry?.tool === tool ? revivePayload(entry.result) : undefined
    } catch {
      return undefined
    } finally {
      dir?.close()
    }
  }

  /**
   * Keeps a result. Arguments or results that can't be serialised are not kept.
   *
   * @throws `LOCAL_IO`, also for a link on the way; `PERMISSION`
   */
  put(tool: string, args: unknown, result: unknown): void {
    const [into, name] = [toolDir(tool), nameOf(args)]
    const text = encodePayload({ tool, result }, MAX_LINE_BYTES)
    if (name === undefined || text === undefined || text.startsWith('{"__journal_error"')) return
    let dir: HeldDirectory | undefined
    let temp: string | undefined
    try {
      dir = this.#hold(into, true)
      temp = dir.at(`${TEMP_PREFIX}${process.pid}-${this.#temps++}`)
      const fd = nodeFs.openSync(temp, 'w', 0o600)
      try {
        writeFully(nodeFs, fd, Buffer.from(text))
      } finally {
        nodeFs.closeSync(fd)
      }
      nodeFs.renameSync(temp, dir.at(name))
    } catch (error) {
      if (temp !== undefined) removeQuietly(nodeFs, temp)
      throw fromSystemError(error, 'journal.cache', `${this.#journalDir}/${CACHE_DIR}/${into}`)
    } finally {
      dir?.close()
    }
  }

  #hold(into: string, create = false): HeldDirectory {
    const names = [basename(this.#journalDir), CACHE_DIR, into]
    return holdDirectory(dirname(this.#journalDir), names, { create })
  }
}

function nameOf(args: unknown): string | undefined {
  const canonical = canonicalJson(args)
  return canonical === undefined ? undefined : `${sha256(canonical)}.json`
}

/** A directory name for any tool name: itself when it is harmless, else a digest. */
function toolDir(tool: string): string {
  if (typeof tool !== 'string' || tool === '') {
    throw new NexusError('INVALID_ARGUMENT', 'a tool needs a name', { op: 'journal.cache' })
  }
  return SAFE_NAME.test(tool) ? tool : `_${sha256(tool).slice(0, 32)}`
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** One text for equal arguments: keys sorted at every level. Undefined when they can't be serialised. */
export function canonicalJson(value: unknown): string | undefined {
  const text = encodePayload(value, MAX_LINE_BYTES) ?? 'null'
  if (text.startsWith('{"__journal_error"')) return undefined
  return JSON.stringify(sortKeys(JSON.parse(text)))
}

function sortKeys(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(sortKeys)
  // No prototype: a key named `__proto__` must be kept like any other.
  const sorted = Object.create(null) as Record<string, unknown>
  for (const key of Object.keys(value).toSorted()) sorted[key] = sortKeys((value as Record<string, unknown>)[key])
  return sorted
}
