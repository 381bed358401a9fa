import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { type FileDigest, type HashOptions, hashSteps, type Slices } from '@nexus/host'
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
// Hashed inline since the process began: beyond it a worker is started, for what comes next.
const WARM_UP_BYTES = 1024 * 1024

/**
 * Hashes files beside the event loop: in one worker thread for the whole process, started when there is enough to do, and
 * in slices on the caller's thread until then, or for good where a worker can't be started (a bundle without its file).
 */
export class FileDigester {
  readonly #workerUrl: URL
  #worker: Worker | undefined
  #online = false
  #broken = false
  #inlineBytes = 0
  #nextId = 0
  readonly #pending = new Map<number, Pending>()
  #batch: number[] = []

  constructor(workerUrl: URL = defaultWorkerUrl()) {
    this.#workerUrl = workerUrl
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
    if (this.#broken || sizeHint <= INLINE_BYTES) return false
    if (this.#online || sizeHint >= WORTH_WAITING_BYTES) return true
    if (this.#inlineBytes > WARM_UP_BYTES) this.#start()
    return false
  }

  /** Ends the worker. A later digest starts another. */
  async close(): Promise<void> {
    await this.#worker?.terminate()
  }

  #hand(file: string | number, options: DigestOptions): Promise<FileDigest> {
    this.#start()
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
    if (this.#worker !== undefined || this.#broken) return
    try {
      const worker = new Worker(this.#workerUrl, {
        name: 'nexus-digest',
        // Flags of the process, like --input-type, are not for this thread. Sources need their loader.
        ...(this.#workerUrl.pathname.endsWith('.js') ? { execArgv: [] } : {}),
      })
      worker.unref()
      worker.on('message', (replies: DigestReply[]) => this.#settle(replies))
      // 'exit' follows, and is where the rest is done.
      worker.on('error', () => (this.#broken = true))
      worker.on('exit', () => {
        this.#worker = undefined
        this.#online = false
        this.#fallBack()
      })
      this.#worker = worker
    } catch {
      this.#broken = true
    }
  }

  #settle(replies: DigestReply[]): void {
    this.#online = true
    for (const reply of replies) {
      const pending = this.#pending.get(reply.id)
      if (pending === undefined) continue
      this.#pending.delete(reply.id)
      if ('digest' in reply) pending.resolve(reply.digest)
      else pending.reject(Object.assign(new Error(reply.error.message), { code: reply.error.code }))
    }
    if (this.#pending.size === 0) this.#worker?.unref()
  }

  #fallBack(): void {
    for (const { file, options, resolve, reject } of this.#pending.values()) {
      hashInline(file, options).then(resolve, reject)
    }
    this.#pending.clear()
  }
}

let shared: FileDigester | undefined

/** The digester of this process. */
export function sharedDigester(): FileDigester {
  return (shared ??= new FileDigester())
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

// The worker's file has this file's extension: .ts from source, .js as built.
function defaultWorkerUrl(): URL {
  return new URL(`./digest-worker${extname(new URL(import.meta.url).pathname)}`, import.meta.url)
}
