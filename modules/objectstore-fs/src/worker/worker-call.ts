import { Slices } from '@nexus/host'
import type { Progress } from '@nexus/objectstore'
import type { Call } from '../call.ts'
import type { FromWorker } from './protocol.ts'

/** Reports that may be under way unheard, twice over: of each so many one asks to be acknowledged. */
const WINDOW = 8

/** The calls of a bucket run on one thread by synchronous file operations; here they take turns, and let messages in. */
const slices = new Slices({ sliceMs: 8 })

/** A call as the worker runs it. */
export class WorkerCall implements Call {
  readonly signal: AbortSignal
  readonly #id: number
  readonly #send: (message: FromWorker) => void
  readonly #abort = new AbortController()
  #last: Progress = { objects: 0, bytes: 0 }
  #reports = 0
  #unheard = 0
  #wake: (() => void) | undefined

  constructor(id: number, send: (message: FromWorker) => void) {
    this.#id = id
    this.#send = send
    this.signal = this.#abort.signal
  }

  get turnIsOver(): boolean {
    return slices.due
  }

  abort(): void {
    this.#abort.abort()
    this.#wake?.()
  }

  /** The caller has heard the oldest report that asked for it. */
  heard(): void {
    this.#unheard--
    this.#wake?.()
  }

  async progress({ objects, bytes }: Progress): Promise<void> {
    this.signal.throwIfAborted()
    if (objects > this.#last.objects || bytes > this.#last.bytes) {
      this.#last = { objects, bytes }
      const acknowledge = ++this.#reports % WINDOW === 0
      this.#send({ kind: 'progress', id: this.#id, progress: this.#last, acknowledge })
      if (acknowledge) await this.#caughtUp()
    }
    await slices.rest()
    this.signal.throwIfAborted()
  }

  /** Goes on at once while the caller is at most one window behind. */
  async #caughtUp(): Promise<void> {
    this.#unheard++
    while (this.#unheard > 1 && !this.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    this.#wake = undefined
  }
}
