import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { type FileDigest, hashSteps, type Slices } from '@nexus/host'
import type { DigestBatch, DigestReply } from './digest-worker.ts'

/** A file to hash. */
export interface DigestOptions {
  /** Bytes from the start to hash; default: all it has when it is opened. */
  limit?: number
  /** How large it probably is: decides where the work is done. */
  sizeHint: number
  /** The budget of the caller, for what is done on its thread. */
  slices: Slices
}

interface Pending {
  path: string
  limit: number | undefined
  slices: Slices
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

  /** @throws the system error of opening or reading; `ELOOP` for a link, `ENOTREG` for any other kind of file */
  async digest(path: string, options: DigestOptions): Promise<FileDigest> {
    const beside = this.digestBeside(path, options)
    if (beside !== undefined) return beside
    this.#inlineBytes += options.sizeHint
    return hashInline(path, options.limit, options.slices)
  }

  /**
   * Like {@link digest}, but only when it costs the caller's thread nothing: undefined when it would be done inline. All
   * that is asked for in one tick goes to the worker in one message.
   */
  digestBeside(path: string, { sizeHint, slices, limit }: DigestOptions): Promise<FileDigest> | undefined {
    if (this.#broken || sizeHint <= INLINE_BYTES) return undefined
    if (this.#online || sizeHint >= WORTH_WAITING_BYTES) return this.#hand(path, limit, slices)
    if (this.#inlineBytes > WARM_UP_BYTES) this.#start()
    return undefined
  }

  /** Ends the worker. A later digest starts another. */
  async close(): Promise<void> {
    await this.#worker?.terminate()
  }

  #hand(path: string, limit: number | undefined, slices: Slices): Promise<FileDigest> {
    this.#start()
    return new Promise((resolve, reject) => {
      const id = this.#nextId++
      // A worker that owes an answer holds the process, an idle one doesn't.
      if (this.#pending.size === 0) this.#worker?.ref()
      this.#pending.set(id, { path, limit, slices, resolve, reject })
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
      paths: asked.map((pending) => pending?.path ?? '').join('\0'),
      limits: asked.map((pending) => pending?.limit ?? -1),
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
    for (const { path, limit, slices, resolve, reject } of this.#pending.values()) {
      hashInline(path, limit, slices).then(resolve, reject)
    }
    this.#pending.clear()
  }
}

let shared: FileDigester | undefined

/** The digester of this process. */
export function sharedDigester(): FileDigester {
  return (shared ??= new FileDigester())
}

async function hashInline(path: string, limit: number | undefined, slices: Slices): Promise<FileDigest> {
  const steps = hashSteps(path, limit)
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
