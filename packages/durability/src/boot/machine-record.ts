import { readFileSync, writeSync } from 'node:fs'
import { mkdir, open, rm, type FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fromSystemError, isNexusError, systemCode } from '@nexus/errors'
import { atomicWriteFile, type Failpoint, type Logger } from '@nexus/host'
import type { CommitPair, MixedFrom } from '../tree/committed.ts'
import type { LocalJournal } from './local-journal.ts'

/** What this machine remembers of a session's local tree. */
export interface MachineRecord {
  /** The newest commit that the tree is known to hold; undefined while it was never stored. */
  committed: CommitPair | undefined
  /** The journal's last seq in that commit. */
  lastSeq: number
  /** Commits that were about to be put and whose answer may have been lost, oldest first. */
  pending: CommitPair[]
  /** The boot of the machine in which the tree was last open. */
  bootId: string
  /** The tree was ended by a stop and given to the disk. */
  clean: boolean
  /** The store holds everything that is in the tree. */
  stored: boolean
  mixedFrom?: MixedFrom
  /** A power loss may have torn the tree, which then ended with this turn: what came later doesn't make it whole. */
  tornAtSeq?: number
}

/** The newest attempts are remembered; an older put that lands later than this many others would be taken for foreign. */
const PENDING_LIMIT = 64

/** A record that is appended to grows by one short line a commit; it is rewritten when it reaches this size. */
const REWRITE_AT_BYTES = 64 * 1024

const SCHEMA_VERSION = 1
const FOLDER = '.machine'

const OP = 'durability.machine-record'

/** Failpoints of the machine record, besides those of an atomic write. */
export const MACHINE_RECORD_FAILPOINTS: readonly string[] = ['machine-record:before-append']

/** The file that holds the record of one session: beside the sessions, so that it never crosses the seam. */
export function machineRecordPath(sessionsRoot: string, sessionId: string): string {
  return join(sessionsRoot, FOLDER, `${sessionId}.jsonl`)
}

/**
 * The record that an earlier run left, or undefined when there is none or it can't be understood: then nothing is known
 * of the tree, which is the safe reading.
 */
export function readMachineRecord(sessionsRoot: string, sessionId: string): MachineRecord | undefined {
  let text: string
  try {
    text = readFileSync(machineRecordPath(sessionsRoot, sessionId), 'utf8')
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw fromSystemError(error, OP, machineRecordPath(sessionsRoot, sessionId))
  }
  const [head, ...tail] = text.split('\n')
  const record = parseHead(head ?? '')
  if (record === undefined) return undefined
  for (const line of tail) {
    const wire = parseJson(line)
    const pair = parsePair(wire)
    // A torn line is a commit that was never put: its fsync had not returned.
    if (pair === undefined) continue
    if (isObject(wire) && typeof wire['last_seq'] === 'number') noteCommitted(record, pair, wire['last_seq'])
    else record.pending.push(pair)
  }
  return record
}

/** Forgets a session that was removed. */
export async function removeMachineRecord(sessionsRoot: string, sessionId: string): Promise<void> {
  await rm(machineRecordPath(sessionsRoot, sessionId), { force: true })
}

/** Whether this commit is one that the tree holds or was about to become. */
export function isOurCommit(record: MachineRecord | undefined, pair: CommitPair): boolean {
  if (record === undefined) return false
  const same = (other: CommitPair): boolean => other.generation === pair.generation && other.nonce === pair.nonce
  return (record.committed !== undefined && same(record.committed)) || record.pending.some(same)
}

/**
 * Whether the tree of a run that has ended holds completed turns that the store never got, or a clean end that it never got. A
 * journal that can't be read counts as holding some.
 */
export function holdsUnstoredTurns(record: MachineRecord | undefined, { turnEnd, lastSeq }: LocalJournal): boolean {
  if (record === undefined || record.stored) return false
  // A run that was killed may have gone on within a turn; one that was stopped stores its journal to the end.
  return ((record.clean ? lastSeq : turnEnd) ?? Number.POSITIVE_INFINITY) > record.lastSeq
}

/**
 * The machine's memory of one session while a run holds it.
 *
 * A commit's pair is on the disk *before* its manifest is put, so that a commit whose answer got lost is recognised
 * as ours. That is all a turn waits for: one appended line and one fdatasync. What the answer said is
 * appended without a sync: lost in a power failure, it leaves the pair pending, which counts as ours just the same.
 *
 * @see docs/concepts/durability.md
 */
export class MachineRecordFile {
  readonly #sessionsRoot: string
  readonly #sessionId: string
  readonly #bootId: string
  readonly #logger: Logger
  readonly #failpoint: Failpoint
  #record: MachineRecord
  #handle: FileHandle | undefined
  #sizeBytes = 0
  #stale = true
  #closed = false

  constructor(
    sessionsRoot: string,
    sessionId: string,
    { bootId, logger, failpoint }: { bootId: string; logger: Logger; failpoint: Failpoint },
  ) {
    this.#sessionsRoot = sessionsRoot
    this.#sessionId = sessionId
    this.#logger = logger
    this.#failpoint = failpoint
    this.#bootId = bootId
    this.#record = this.#blank()
  }

  get current(): Readonly<MachineRecord> {
    return this.#record
  }

  /** The highest generation that was ever tried from this machine, as far as it is remembered. */
  get highestGeneration(): number {
    return this.#record.pending.reduce(
      (highest, pair) => Math.max(highest, pair.generation),
      this.#record.committed?.generation ?? 0,
    )
  }

  /**
   * Starts this run's record: the tree is open, so it isn't clean. On the disk when the promise resolves.
   *
   * @param from what is known of the tree; `bootId` only when an earlier boot's tree could not be judged yet
   */
  async begin(from: Partial<Omit<MachineRecord, 'clean' | 'stored'>>): Promise<void> {
    this.#record = { ...this.#blank(), ...from, clean: false, stored: false }
    await this.#rewrite()
  }

  #blank(): MachineRecord {
    return { committed: undefined, lastSeq: 0, pending: [], bootId: this.#bootId, clean: false, stored: false }
  }

  isOurs(pair: CommitPair): boolean {
    return isOurCommit(this.#record, pair)
  }

  /** Makes the pair ours, on the disk, before its manifest may be put. Throws `LOCAL_IO` when the disk refuses. */
  async aboutToCommit(pair: CommitPair): Promise<void> {
    this.#record.pending.push({ generation: pair.generation, nonce: pair.nonce })
    if (this.#record.pending.length > PENDING_LIMIT) this.#record.pending.shift()
    await this.#failpoint('machine-record:before-append')
    if (this.#stale || this.#sizeBytes >= REWRITE_AT_BYTES) await this.#rewrite()
    else await this.#append(`${JSON.stringify({ generation: pair.generation, nonce: pair.nonce })}\n`)
  }

  /**
   * The store holds this commit: ours that was acknowledged, ours that a later look found, or another's that was
   * adopted. Earlier attempts stay remembered, since a delayed put may still land.
   */
  committed(pair: CommitPair, lastSeq: number): void {
    noteCommitted(this.#record, pair, lastSeq)
    if (this.#handle === undefined || this.#stale) return
    const line = `${JSON.stringify({ generation: pair.generation, nonce: pair.nonce, last_seq: lastSeq })}\n`
    try {
      writeSync(this.#handle.fd, line)
      this.#sizeBytes += line.length
    } catch (error) {
      this.#stale = true
      this.#logger.debug({ err: error }, 'a commit was not noted in the machine record; its pair was')
    }
  }

  /** The tree of an earlier boot was judged good: from now on it belongs to this one. */
  adoptBoot(bootId: string): void {
    this.#record.bootId = bootId
    delete this.#record.tornAtSeq
  }

  /** Writes how the run ended. */
  async end(how: { clean: boolean; stored: boolean }): Promise<void> {
    this.#record.clean = how.clean
    this.#record.stored = how.stored
    await this.#rewrite()
    await this.close()
  }

  /** Gives the descriptor back and writes nothing. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#letGo()
  }

  async #letGo(): Promise<void> {
    const handle = this.#handle
    this.#handle = undefined
    this.#stale = true
    await handle?.close().catch((error: unknown) => {
      this.#logger.debug({ err: error }, 'closing the machine record failed')
    })
  }

  async #append(line: string): Promise<void> {
    const handle = this.#handle
    if (handle === undefined) return this.#rewrite()
    try {
      await handle.appendFile(line)
      await handle.datasync()
      this.#sizeBytes += line.length
    } catch (error) {
      // Part of the line may be there: the next write starts from a fresh file.
      this.#stale = true
      throw fromSystemError(error, OP, machineRecordPath(this.#sessionsRoot, this.#sessionId))
    }
  }

  async #rewrite(): Promise<void> {
    const path = machineRecordPath(this.#sessionsRoot, this.#sessionId)
    await this.#letGo()
    try {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      const text = `${JSON.stringify(wireForm(this.#sessionId, this.#record))}\n`
      await atomicWriteFile(path, text, { mode: 0o600, failpoint: this.#failpoint })
      this.#handle = await open(path, 'a')
      this.#sizeBytes = text.length
      this.#stale = false
      // Closed meanwhile, by a run that is abandoned while it boots.
      if (this.#closed) await this.#letGo()
    } catch (error) {
      throw isNexusError(error) ? error : fromSystemError(error, OP, path)
    }
  }
}

function noteCommitted(record: MachineRecord, pair: CommitPair, lastSeq: number): void {
  record.committed = { generation: pair.generation, nonce: pair.nonce }
  record.lastSeq = lastSeq
  delete record.mixedFrom
}

function wireForm(sessionId: string, record: MachineRecord): Record<string, unknown> {
  return {
    _schema_version: SCHEMA_VERSION,
    session_id: sessionId,
    ...record.committed,
    last_seq: record.lastSeq,
    boot_id: record.bootId,
    clean: record.clean,
    stored: record.stored,
    pending: record.pending,
    ...(record.mixedFrom === undefined ? {} : { mixed_from: record.mixedFrom }),
    ...(record.tornAtSeq === undefined ? {} : { torn_at_seq: record.tornAtSeq }),
  }
}

function parseHead(line: string): MachineRecord | undefined {
  const head = parseJson(line)
  if (!isObject(head) || head['_schema_version'] !== SCHEMA_VERSION || typeof head['boot_id'] !== 'string')
    return undefined
  const pending = Array.isArray(head['pending']) ? head['pending'].map(parsePair) : []
  const mixed = head['mixed_from']
  return {
    committed: parsePair(head),
    lastSeq: typeof head['last_seq'] === 'number' ? head['last_seq'] : 0,
    pending: pending.filter((pair) => pair !== undefined),
    bootId: head['boot_id'],
    clean: head['clean'] === true,
    stored: head['stored'] === true,
    ...(isMixedFrom(mixed) ? { mixedFrom: mixed } : {}),
    ...(typeof head['torn_at_seq'] === 'number' ? { tornAtSeq: head['torn_at_seq'] } : {}),
  }
}

function isMixedFrom(value: unknown): value is MixedFrom {
  if (!isObject(value) || !Number.isSafeInteger(value['generation']) || !Array.isArray(value['paths'])) return false
  return value['paths'].every((path) => typeof path === 'string')
}

function parsePair(value: unknown): CommitPair | undefined {
  if (!isObject(value)) return undefined
  const { generation, nonce } = value
  return typeof generation === 'number' && typeof nonce === 'string' ? { generation, nonce } : undefined
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
