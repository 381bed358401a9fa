import process from 'node:process'

/** What Ctrl-C does. */
export interface InterruptActions {
  /** Cancels the turn under way; resolves with the ids of the turns, none when there was none. */
  cancel: () => Promise<string[]>
  /** Stops the session. */
  stop: () => void
  note: (text: string) => void
}

/**
 * Ctrl-C: cancels the turn under way; when there is none, or at the second time before the turn has ended, it stops. A third one ends the process.
 * SIGTERM and SIGHUP stop.
 */
export class Interrupts {
  readonly #actions: InterruptActions
  #isCancelling = false
  #isStopping = false

  constructor(actions: InterruptActions) {
    this.#actions = actions
    process.on('SIGINT', this.interrupt)
    process.on('SIGTERM', this.#stop)
    process.on('SIGHUP', this.#stop)
  }

  get isStopping(): boolean {
    return this.#isStopping
  }

  /** Also for terminals in raw mode, where Ctrl-C is a key and no signal. */
  readonly interrupt = (): void => {
    if (this.#isStopping) process.exit(130)
    if (this.#isCancelling) return this.#stop()
    this.#isCancelling = true
    void this.#actions.cancel().then((turnIds) => {
      if (turnIds.length === 0) return this.#stop()
      this.#actions.note('cancelling the turn; Ctrl-C again stops')
    })
  }

  /** The turn has ended: the next Ctrl-C cancels again. */
  turnEnded(): void {
    this.#isCancelling = false
  }

  release(): void {
    process.off('SIGINT', this.interrupt)
    process.off('SIGTERM', this.#stop)
    process.off('SIGHUP', this.#stop)
  }

  readonly #stop = (): void => {
    this.#isStopping = true
    this.#actions.stop()
  }
}
