import { createHash } from 'node:crypto'
import { fromSystemError, NexusError } from '@nexus/errors'
import { CACHE_DIR, MAX_LINE_BYTES, TEMP_PREFIX } from '../format/format.ts'
import { nodeFs, readSmallFile, removeQuietly, writeFully, type JournalFs } from '../files/journal-fs.ts'
import { encodePayload, revivePayload } from '../format/payload.ts'

const SAFE_NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/**
 * Results of tools by name and arguments, in `cache/<tool>/<sha256 of the canonical arguments>.json`, so that a replay
 * finds a result whatever the order of the calls. A cache: nothing is synced, and an unreadable entry counts as absent.
 */
export class ToolCache {
  readonly #dir: string
  readonly #fs: JournalFs
  #temps = 0

  /** @param journalDir the journal directory */
  constructor(journalDir: string, fs: JournalFs = nodeFs) {
    this.#dir = `${journalDir}/${CACHE_DIR}`
    this.#fs = fs
  }

  /** The result kept for these arguments, or undefined. */
  get(tool: string, args: unknown): unknown {
    const path = this.#path(tool, args)
    if (path === undefined) return undefined
    try {
      const bytes = readSmallFile(this.#fs, path, MAX_LINE_BYTES)
      const entry = bytes && (JSON.parse(bytes.toString('utf8')) as { tool?: unknown; result?: unknown })
      // A file system that folds case may hand out the entry of another tool.
      return entry?.tool === tool ? revivePayload(entry.result) : undefined
    } catch {
      return undefined
    }
  }

  /**
   * Keeps a result. Arguments or results that can't be serialised are not kept.
   *
   * @throws `LOCAL_IO`, `PERMISSION`
   */
  put(tool: string, args: unknown, result: unknown): void {
    const path = this.#path(tool, args)
    const text = encodePayload({ tool, result }, MAX_LINE_BYTES)
    if (path === undefined || text === undefined || text.startsWith('{"__journal_error"')) return
    const temp = `${this.#dir}/${TEMP_PREFIX}${process.pid}-${this.#temps++}`
    try {
      this.#fs.mkdirSync(path.slice(0, path.lastIndexOf('/')), { recursive: true, mode: 0o700 })
      const fd = this.#fs.openSync(temp, 'w', 0o600)
      try {
        writeFully(this.#fs, fd, Buffer.from(text))
      } finally {
        this.#fs.closeSync(fd)
      }
      this.#fs.renameSync(temp, path)
    } catch (error) {
      removeQuietly(this.#fs, temp)
      throw fromSystemError(error, 'journal.cache', path)
    }
  }

  #path(tool: string, args: unknown): string | undefined {
    const canonical = canonicalJson(args)
    if (canonical === undefined) return undefined
    return `${this.#dir}/${toolDir(tool)}/${sha256(canonical)}.json`
  }
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
