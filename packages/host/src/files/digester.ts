import type { Worker } from 'node:worker_threads'
import { silentLogger, type Logger } from '../logger.ts'
import { WorkerStarter } from '../process/worker-starter.ts'
import { Slices } from '../time/slices.ts'
import { hashSteps, type FileDigest, type HashOptions } from './file-digest.ts'
import type { DigestBatch, DigestReply } from './digest-worker.ts'

/** A file to hash. */
export interface DigestOptions extends HashOptions {
  /** How large it probably is: decides where the work is done. */
  sizeHint: number
  /** The budget of the caller, for what is done on its thread. */
  slices: Slices
}

interface Pending {
  file: string | number
  options: DigestOptions
  resolve: (digest: FileDigest) => void
  reject: (error: unknown) => void
}

// Below it, a file is hashed in the time that handing it over takes.
const INLINE_BYTES = 8 * 1024
// From here on the caller waits for a worker that is only starting (some 20 ms), and doesn't do it in slices.
const WORTH_WAITING_BYTES = 8 * 1024 * 1024
// Hashed inline since the last worker was started: beyond it a worker is started, for what comes next.
const WARM_UP_BYTES = 1024 * 1024

/**
 * Hashes files beside the event loop: in one worker thread for the whole process, started when there is enough to do and
 * ended when it had nothing to do for a while. Until then, and where a worker can't be started, files are hashed in slices on
 * the caller's thread.
 */
export class FileDigester {
  /** Hears of workers that can't be started. */
  logger: Logger = silentLogger
  readonly #starter: WorkerStarter
  readonly #idleMs: number
  #idle: NodeJS.Timeout | undefined
  #worker: Worker | undefined
  #online = false
  #inlineBytes = 0
  #nextId = 0
  readonly #pending = new Map<number, Pending>()
  #batch: number[] = []

  constructor({
    workerUrl,
    idleMs = 10_000,
    restartMs,
  }: { workerUrl?: URL; idleMs?: number; restartMs?: number } = {}) {
    this.#idleMs = idleMs
    this.#starter = new WorkerStarter({
      name: 'digest-worker',
      moduleUrl: import.meta.url,
      work: 'files are hashed',
      packageName: '@nexus/host',
      workerUrl,
      pauseMs: restartMs,
    })
  }

  /**
   * Hashes a file named by its path, or one that the caller holds open until this settles. All that is asked for in one
   * tick goes to the worker in one message.
   *
   * @throws the system error of opening, reading or copying; `ELOOP` for a link, `ENOTREG` for any other kind of file
   */
  async digest(file: string | number, options: DigestOptions): Promise<FileDigest> {
    if (this.#isWorthHanding(options.sizeHint)) return this.#hand(file, options)
    this.#inlineBytes += options.sizeHint
    return hashInline(file, options)
  }

  #isWorthHanding(sizeHint: number): boolean {
    if (sizeHint <= INLINE_BYTES) return false
    if (this.#online) return true
    if (sizeHint >= WORTH_WAITING_BYTES || this.#inlineBytes > WARM_UP_BYTES) this.#start()
    return sizeHint >= WORTH_WAITING_BYTES && this.#worker !== undefined
  }

  /** Ends the worker. A later digest starts another. */
  async close(): Promise<void> {
    clearTimeout(this.#idle)
    await this.#worker?.terminate()
  }

  #hand(file: string | number, options: DigestOptions): Promise<FileDigest> {
    clearTimeout(this.#idle)
    return new Promise((resolve, reject) => {
      const id = this.#nextId++
      // A worker that owes an answer holds the process, an idle one doesn't.
      if (this.#pending.size === 0) this.#worker?.ref()
      this.#pending.set(id, { file, options, resolve, reject })
      if (this.#batch.push(id) === 1) queueMicrotask(() => this.#send())
    })
  }

  #send(): void {
    const ids = this.#batch
    this.#batch = []
    if (this.#worker === undefined) return this.#fallBack()
    const asked = ids.map((id) => this.#pending.get(id))
    const batch: DigestBatch = {
      ids,
      files: asked.map((pending) => pending?.file ?? '').join('\0'),
      limits: asked.map((pending) => pending?.options.limit ?? -1),
      copyTo: asked.map((pending) => pending?.options.copyTo ?? -1),
    }
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    this.#worker.postMessage(batch)
  }

  #start(): void {
    if (this.#worker !== undefined) return
    const worker = this.#starter.start(this.logger)
    if (worker === undefined) return
    worker.unref()
    worker.on('message', (replies: DigestReply[]) => this.#settle(replies))
    worker.on('error', (error) => this.#starter.failed(error, this.logger))
    // Also after an 'error'.
    worker.on('exit', () => {
      this.#worker = undefined
      this.#online = false
      this.#fallBack()
    })
    this.#worker = worker
    this.#inlineBytes = 0
  }

  #settle(replies: DigestReply[]): void {
    this.#online = true
    this.#starter.succeeded()
    for (const reply of replies) {
      const pending = this.#pending.get(reply.id)
      if (pending === undefined) continue
      this.#pending.delete(reply.id)
      if ('digest' in reply) pending.resolve(reply.digest)
      else pending.reject(Object.assign(new Error(reply.error.message), { code: reply.error.code }))
    }
    if (this.#pending.size > 0) return
    this.#worker?.unref()
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => void this.#worker?.terminate(), this.#idleMs).unref()
  }

  #fallBack(): void {
    for (const { file, options, resolve, reject } of this.#pending.values()) {
      hashInline(file, options).then(resolve, reject)
    }
    this.#pending.clear()
  }
}

let shared: FileDigester | undefined

/** The digester of this process, which from now on tells `logger` of workers that can't be started. */
export function sharedDigester(logger: Logger): FileDigester {
  shared ??= new FileDigester()
  shared.logger = logger
  return shared
}

/** The digest of a file, made on this thread in slices: for one file now and then. */
export async function sha256OfFile(path: string): Promise<string> {
  return (await hashInline(path, { sizeHint: 0, slices: new Slices() })).sha256
}

async function hashInline(file: string | number, { slices, ...options }: DigestOptions): Promise<FileDigest> {
  const steps = hashSteps(file, options)
  try {
    for (;;) {
      if (slices.due) await slices.pause()
      const step = steps.next()
      if (step.done === true) return step.value
    }
  } finally {
    // Closes the file when the pause was aborted.
    steps.return(undefined as never)
  }
}
