import { readFileSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { fromSystemError, systemCode } from '@nexus/errors'
import { AsyncLock, atomicWriteFile, type Failpoint } from '@nexus/host'
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

/** A record is rewritten when it has grown to this size, and to twice what it was when it was written whole. */
const REWRITE_AT_BYTES = 64 * 1024

/** The record of the tree that a run works on, as it is on the disk. */
export class SessionRecordFile {
  readonly #treeDir: string
  readonly #failpoint: Failpoint
  readonly #lock = new AsyncLock()
  #record: SessionRecord
  #handle: FileHandle | undefined
  #isClosed = false
  #sizeBytes = 0
  #rewriteAtBytes = REWRITE_AT_BYTES
  /** A write failed, and part of its line may be there: the next one must not go on from it. */
  #isTorn = false

  private constructor(treeDir: string, record: SessionRecord, failpoint: Failpoint) {
    this.#treeDir = treeDir
    this.#record = record
    this.#failpoint = failpoint
  }

  /** Opens the record of a tree, rewritten so that it is short; a tree without one begins an empty record of no boot. */
  static async open(treeDir: string, { failpoint }: { failpoint: Failpoint }): Promise<SessionRecordFile> {
    const file = new SessionRecordFile(treeDir, readSessionRecord(treeDir) ?? recordOf('', undefined), failpoint)
    await file.replace(file.current)
    return file
  }

  get current(): SessionRecord {
    return this.#record
  }

  /** Adds a line; on the disk when the promise resolves, unless it may be lost. */
  async add(line: RecordLine, { durable = true }: { durable?: boolean } = {}): Promise<void> {
    await this.#lock.run(async () => {
      await this.#append(line, durable)
      this.#record = withLine(this.#record, line)
      if (this.#sizeBytes >= this.#rewriteAtBytes) await this.#rewrite(this.#record)
    })
  }

  /** Replaces all of it. */
  async replace(record: SessionRecord): Promise<void> {
    await this.#lock.run(() => this.#rewrite(record))
  }

  /** Waits for what is being written. */
  async close(): Promise<void> {
    await this.#lock.run(async () => {
      this.#isClosed = true
      await this.#letGo()
    })
  }

  async #append(line: RecordLine, durable: boolean): Promise<void> {
    const text = `${this.#isTorn ? '\n' : ''}${JSON.stringify(line)}\n`
    this.#isTorn = false
    try {
      await this.#failpoint('session-record:before-append')
      this.#handle ??= await opened(this.#treeDir)
      await this.#handle.appendFile(text)
      this.#sizeBytes += Buffer.byteLength(text)
      if (durable) await this.#handle.datasync()
      if (this.#isClosed) await this.#letGo()
    } catch (error) {
      this.#isTorn = true
      throw fromSystemError(error, OP, join(this.#treeDir, SESSION_RECORD_PATH))
    }
  }

  async #rewrite(record: SessionRecord): Promise<void> {
    await this.#letGo()
    this.#sizeBytes = await writeRecord(this.#treeDir, record, this.#failpoint)
    this.#rewriteAtBytes = Math.max(REWRITE_AT_BYTES, 2 * this.#sizeBytes)
    this.#isTorn = false
    this.#record = record
  }

  async #letGo(): Promise<void> {
    const handle = this.#handle
    this.#handle = undefined
    await handle?.close()
  }
}

/** @returns its size */
async function writeRecord(treeDir: string, record: SessionRecord, failpoint?: Failpoint): Promise<number> {
  const { bootId, base, attempts, packs } = record
  const line: RecordLine = { boot_id: bootId, ...(base === undefined ? {} : { base }), attempts, packs }
  const text = `${JSON.stringify(line)}\n`
  await atomicWriteFile(join(treeDir, SESSION_RECORD_PATH), text, {
    mode: 0o600,
    ...(failpoint === undefined ? {} : { failpoint }),
  })
  return Buffer.byteLength(text)
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
