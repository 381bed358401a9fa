import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { NexusError } from '@nexus/errors'
import type { Logger } from '../logger.ts'

const MAX_PAUSE_MS = 60_000

/** Threads of one kind. */
export interface WorkerStarterOptions {
  /** The file's name without extension. It lies beside the module, also when both are built or bundled. */
  readonly name: string
  /** `import.meta.url` of the module that starts it. Bundlers that write CommonJS leave it empty. */
  readonly moduleUrl: string | undefined
  /** What is slower without them, for the warning: "files are hashed". */
  readonly work: string
  /** The package to leave out of a bundle, for the warning. */
  readonly packageName: string
  /** Instead of the file beside the module. */
  readonly workerUrl?: URL | undefined
  /** How long no start is tried after the first that failed; doubles from there to 60 s. Default 1 s. */
  readonly pauseMs?: number | undefined
}

/**
 * Starts the threads of one kind. After a start that failed (no descriptors left, a bundle without the worker's file) the work
 * is the calling thread's for a while: one warning for the whole outage names the file and the remedy, and the start is
 * tried again, after pauses that double.
 *
 * @see docs/guides/embedding.md#bundling
 */
export class WorkerStarter {
  readonly #options: WorkerStarterOptions
  readonly #url: URL | undefined
  readonly #fileName: string
  #failedStarts = 0
  #pausedUntilMs = 0

  constructor(options: WorkerStarterOptions) {
    const { name, moduleUrl, workerUrl } = options
    // The module may be bundled into a file of any name; the worker's is .ts from source and .js otherwise.
    this.#fileName = `${name}${moduleUrl?.endsWith('.ts') === true ? '.ts' : '.js'}`
    this.#options = options
    this.#url = workerUrl ?? (moduleUrl ? new URL(`./${this.#fileName}`, moduleUrl) : undefined)
  }

  /** Whether a start failed so lately that none is tried. */
  get isPaused(): boolean {
    return performance.now() < this.#pausedUntilMs
  }

  /** Undefined during a pause, and where it fails at once. A thread that ends before it is of use is told to {@link failed}. */
  start(logger: Logger): Worker | undefined {
    if (this.isPaused) return undefined
    try {
      const url = this.#url
      if (url === undefined || (url.protocol === 'file:' && !existsSync(fileURLToPath(url)))) throw this.#missing()
      return new Worker(url, {
        name: `nexus-${this.#options.name}`,
        // What the process preloads for itself, and flags like --input-type, are not for this thread. Sources need their loader.
        ...(this.#fileName.endsWith('.js') ? { execArgv: [] } : {}),
      })
    } catch (error) {
      this.failed(error, logger)
      return undefined
    }
  }

  /** Begins a pause, and warns when it is the first of an outage. */
  failed(cause: unknown, logger: Logger): void {
    const { work, pauseMs = 1000 } = this.#options
    const waitMs = Math.min(pauseMs * 2 ** this.#failedStarts, MAX_PAUSE_MS)
    this.#pausedUntilMs = performance.now() + waitMs
    if (this.#failedStarts++ > 0) return
    const reason = cause instanceof Error ? cause.message : String(cause)
    logger.warn(
      { err: cause, retry_ms: waitMs },
      `${work} on the main thread, which slows it down, until ${this.#fileName} can be started as a worker: ${reason}`,
    )
  }

  /** Ends an outage: the thread answered. */
  succeeded(): void {
    this.#failedStarts = 0
  }

  #missing(): NexusError {
    const place = this.#url === undefined ? 'beside a CommonJS bundle' : `at ${fileURLToPath(this.#url)}`
    const remedy = `bundle it as an entry of its own, or leave ${this.#options.packageName} out of the bundle`
    const message = `${this.#fileName} was not found ${place}; ${remedy} (docs/guides/embedding.md, Bundling)`
    return new NexusError('PRECONDITION', message, { op: 'worker.start', key: this.#fileName })
  }
}
