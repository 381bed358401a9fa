import type { Logger } from '@nexus/host'

interface Step {
  what: string
  run: () => void | Promise<void>
}

/** What a boot has taken so far, released newest first when a later step fails. */
export class Teardown {
  readonly #logger: Logger
  readonly #steps: Step[] = []

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Registers how to give back what was just taken. */
  defer(what: string, run: Step['run']): void {
    this.#steps.push({ what, run })
  }

  /** Keeps everything: the boot succeeded and `stop()` owns it now. */
  release(): void {
    this.#steps.length = 0
  }

  /** Gives everything back. A step that fails is logged and doesn't keep the others from running. */
  async unwind(): Promise<void> {
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      try {
        await step.run()
      } catch (error) {
        this.#logger.warn({ err: error, step: step.what }, 'a failed boot could not release what it took')
      }
    }
  }
}
