import { readFileSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { fromSystemError, systemCode } from '@nexus/errors'
import { atomicWriteFile, type Failpoint } from '@nexus/host'
import { SESSION_RECORD_PATH } from '../tree/names.ts'
import type { CommitId } from './core/commit-facts.ts'
import { recordOf, type RecordLine, type SessionRecord, withLine } from './core/session-record.ts'

const OP = 'durability.session-record'

/** Failpoints of the record, besides those of an atomic write. */
export const SESSION_RECORD_FAILPOINTS: readonly string[] = ['session-record:before-append']

/**
 * The record that lies in a tree; undefined where there is none, or it doesn't begin as one does. What nothing is known of is
 * never taken for ours.
 */
export function readSessionRecord(treeDir: string): SessionRecord | undefined {
  const path = join(treeDir, SESSION_RECORD_PATH)
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(systemCode(error) ?? '')) return undefined
    throw fromSystemError(error, OP, path)
  }
  const [first, ...rest] = text.split('\n').map(parseLine)
  if (first === undefined || !('boot_id' in first)) return undefined
  // A line that is torn was not on the disk when its attempt was sent: it was never sent.
  return rest.reduce<SessionRecord>(
    (record, line) => (line === undefined || 'boot_id' in line ? record : withLine(record, line)),
    withLine(recordOf('', undefined), first),
  )
}

/** Writes the record of a tree that was just filled with a commit, before it appears in its place. */
export async function beginSessionRecord(
  treeDir: string,
  { bootId, base, failpoint }: { bootId: string; base: CommitId | undefined; failpoint?: Failpoint },
): Promise<void> {
  await writeRecord(treeDir, recordOf(bootId, base), failpoint)
}

/** The record of the tree that a run works on, as it is on the disk. */
export class SessionRecordFile {
  readonly #treeDir: string
  readonly #failpoint: Failpoint
  #record: SessionRecord
  #handle: FileHandle | undefined
  /** A write failed, and part of its line may be there: the next one must not go on from it. */
  #isTorn = false

  private constructor(treeDir: string, record: SessionRecord, failpoint: Failpoint) {
    this.#treeDir = treeDir
    this.#record = record
    this.#failpoint = failpoint
  }

  /** Opens the record of a tree, rewritten so that it is short; a tree without one begins an empty record. */
  static async open(
    treeDir: string,
    { bootId, failpoint }: { bootId: string; failpoint: Failpoint },
  ): Promise<SessionRecordFile> {
    const record = { ...(readSessionRecord(treeDir) ?? recordOf(bootId, undefined)), bootId }
    await writeRecord(treeDir, record, failpoint)
    const file = new SessionRecordFile(treeDir, record, failpoint)
    file.#handle = await opened(treeDir)
    return file
  }

  get current(): SessionRecord {
    return this.#record
  }

  /** Adds a line; on the disk when the promise resolves, unless it may be lost. */
  async add(line: RecordLine, { durable = true }: { durable?: boolean } = {}): Promise<void> {
    const begin = this.#isTorn ? '\n' : ''
    this.#isTorn = false
    try {
      await this.#failpoint('session-record:before-append')
      this.#handle ??= await opened(this.#treeDir)
      await this.#handle.appendFile(`${begin}${JSON.stringify(line)}\n`)
      if (durable) await this.#handle.datasync()
    } catch (error) {
      this.#isTorn = true
      throw fromSystemError(error, OP, join(this.#treeDir, SESSION_RECORD_PATH))
    }
    this.#record = withLine(this.#record, line)
  }

  /** Replaces all of it. */
  async replace(record: SessionRecord): Promise<void> {
    await this.close()
    await writeRecord(this.#treeDir, record, this.#failpoint)
    this.#record = record
  }

  async close(): Promise<void> {
    const handle = this.#handle
    this.#handle = undefined
    await handle?.close()
  }
}

async function writeRecord(treeDir: string, record: SessionRecord, failpoint?: Failpoint): Promise<void> {
  const { bootId, base, attempts, packs } = record
  const line: RecordLine = { boot_id: bootId, ...(base === undefined ? {} : { base }), attempts, packs }
  await atomicWriteFile(join(treeDir, SESSION_RECORD_PATH), `${JSON.stringify(line)}\n`, {
    mode: 0o600,
    ...(failpoint === undefined ? {} : { failpoint }),
  })
}

async function opened(treeDir: string): Promise<FileHandle> {
  return await open(join(treeDir, SESSION_RECORD_PATH), 'a')
}

function parseLine(text: string): RecordLine | undefined {
  let line: unknown
  try {
    line = JSON.parse(text)
  } catch {
    return undefined
  }
  if (typeof line !== 'object' || line === null) return undefined
  const { boot_id: bootId, base, attempt, committed, attempts = [], packs = [], pack } = line as Record<string, unknown>
  if (!Array.isArray(attempts) || !Array.isArray(packs) || !attempts.every(isCommitId)) return undefined
  if (![...packs, ...(pack === undefined ? [] : [pack])].every(isPack)) return undefined
  if (typeof bootId === 'string') return base === undefined || isCommitId(base) ? (line as RecordLine) : undefined
  const ids = [attempt, committed].filter((each) => each !== undefined)
  return ids.every(isCommitId) && (ids.length === 1 || pack !== undefined) ? (line as RecordLine) : undefined
}

function isCommitId(value: unknown): value is CommitId {
  const { generation, digest } = (value ?? {}) as Partial<CommitId>
  return Number.isSafeInteger(generation) && typeof digest === 'string'
}

function isPack(value: unknown): boolean {
  const { name } = (value ?? {}) as { name?: { number?: unknown; attempt?: unknown } }
  return Number.isSafeInteger(name?.number) && typeof name?.attempt === 'string'
}
