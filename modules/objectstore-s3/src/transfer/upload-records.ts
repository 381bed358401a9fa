import { createHash } from 'node:crypto'
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Logger } from '@nexus/objectstore'
import type { S3Options } from '../options.ts'

/** A multipart upload as it is noted on disk. */
export interface UploadRecord {
  path: string
  /** The object's full key in the bucket. */
  key: string
  uploadId: string
}

/**
 * Notes of the multipart uploads that this host has begun, one file each, so that what a killed process left at the store can
 * be aborted by the next one. Only uploads noted here are ever aborted: a listing of the store's would name those of other
 * hosts too, which may be alive.
 *
 * A file's name says which process wrote it. A pid means something only within one boot and one pid namespace, so records of
 * others are left alone.
 */
export class UploadRecords {
  readonly #root: string
  readonly #directory: string
  readonly #logger: Logger
  #usable: boolean | undefined
  #count = 0

  constructor({ stateDirectory, endpoint, region, bucket, prefix }: S3Options, logger: Logger) {
    const store = createHash('sha256')
      .update(JSON.stringify([endpoint?.href ?? region, bucket, prefix]))
      .digest('hex')
    this.#root = stateDirectory
    this.#directory = join(stateDirectory, store.slice(0, 16))
    this.#logger = logger
  }

  /** Notes an upload. Undefined where that is not possible: the upload goes on without. */
  add(key: string, uploadId: string): UploadRecord | undefined {
    if (!this.#prepare()) return undefined
    const path = join(this.#directory, `${OWN}-${this.#count++}-${INSTANCE++}.json`)
    try {
      writeFileSync(path, JSON.stringify({ key, uploadId }), { mode: 0o600, flag: 'wx' })
    } catch (error) {
      this.#disable(error)
      return undefined
    }
    return { path, key, uploadId }
  }

  remove(record: UploadRecord): void {
    rmSync(record.path, { force: true })
  }

  /** Takes over the records of processes of this host that have ended. Each is given to one caller. */
  takeAbandoned(): UploadRecord[] {
    const taken: UploadRecord[] = []
    let names: string[]
    try {
      names = readdirSync(this.#directory)
      this.#refuseForeign()
    } catch {
      return taken
    }
    for (const name of names) {
      const [scope, pid, start] = name.split('-')
      if (scope !== SCOPE || !name.endsWith('.json') || startOf(Number(pid)) === start) continue
      const path = join(this.#directory, `${OWN}-taken-${INSTANCE++}.json`)
      try {
        // The one whose rename succeeds has it.
        renameSync(join(this.#directory, name), path)
        const { key, uploadId } = JSON.parse(readFileSync(path, 'utf8')) as Partial<UploadRecord>
        if (typeof key === 'string' && typeof uploadId === 'string') taken.push({ path, key, uploadId })
        else rmSync(path, { force: true })
      } catch {
        // Taken by another process, or cut short by the kill of its writer, when no upload is known by it.
        rmSync(path, { force: true })
      }
    }
    return taken
  }

  #prepare(): boolean {
    if (this.#usable !== undefined) return this.#usable
    try {
      mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
      this.#refuseForeign()
      this.#usable = true
    } catch (error) {
      this.#disable(error)
    }
    return this.#usable === true
  }

  /** In a directory that everyone may write to, somebody else may have been first, and would choose what we abort. */
  #refuseForeign(): void {
    const own = process.getuid?.()
    for (const path of [this.#root, this.#directory]) {
      const { uid } = lstatSync(path)
      if (own !== undefined && uid !== own && uid !== 0) throw new Error(`${path} belongs to another user`)
    }
  }

  #disable(error: unknown): void {
    this.#usable = false
    const hint =
      'multipart uploads are not noted: what a kill leaves of one stays until a lifecycle rule of the bucket removes it'
    this.#logger.warn({ directory: this.#directory, err: error }, hint)
  }
}

let INSTANCE = 0

function readOr(read: () => string): string {
  try {
    return read()
  } catch {
    return ''
  }
}

/** This boot and pid namespace of this host. */
const SCOPE: string = createHash('sha256')
  .update(hostname())
  .update(readOr(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')))
  .update(readOr(() => readlinkSync('/proc/self/ns/pid')))
  .digest('hex')
  .slice(0, 12)

const OWN: string = `${SCOPE}-${process.pid}-${startOf(process.pid) ?? '0'}`

/**
 * When a process was started, which tells it from a later one with its number. `0` where the system does not say, undefined
 * for a process that is not there.
 */
function startOf(pid: number): string | undefined {
  try {
    process.kill(pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return undefined
  }
  const stat = readOr(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  // The second field is the program's name in brackets, which may hold anything.
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '0'
}
