import type { EventBus } from '../bus/event-bus.ts'
import type { EventMap } from '../bus/event-map.ts'

/** The answer to an input. */
export interface InputOutcome {
  accepted: boolean
  /** Why not. */
  reason?: string
  /** How many of its handlers threw; absent when none did. The others ran, and each failure became one `core.error`. */
  failed?: number
  /** What the first of them threw. */
  error?: unknown
  /** Why its turn failed or was cancelled, as its `agent.turn.end` says; absent when it went well. */
  turnError?: string
}

type Input = EventMap['io.input']

/** The inputs of a run: one at a time, in the order in which they came. */
export class InputLine {
  readonly #bus: EventBus
  readonly #refusal: () => InputOutcome | undefined
  /** Settles when every input so far has been dealt with. */
  #last: Promise<unknown> = Promise.resolve()
  /** Inputs that have not been dealt with; one that is refused for having to wait has been. */
  readonly #open = new Set<symbol>()

  /** @param refusal why the session takes no input, asked when the turn of an input has come; throws when it isn't running */
  constructor(bus: EventBus, refusal: () => InputOutcome | undefined) {
    this.#bus = bus
    this.#refusal = refusal
  }

  /** Offers an input, behind those before it unless it is refused for having to wait. */
  async submit(payload: Input): Promise<InputOutcome> {
    const id = Symbol('input')
    // Asked at once and in line all the same: it keeps its place however long the answer takes.
    const asked = this.#open.size === 0 ? undefined : this.#askToWait(payload)
    const turn = this.inTurn(async () => (await asked) ?? (await this.#give(payload)), id)
    const refusal = await asked
    if (refusal === undefined) return await turn
    this.#open.delete(id)
    return refusal
  }

  /** Does some work behind the inputs so far; those that come later wait for it. */
  inTurn<T>(work: () => Promise<T>, id: symbol = Symbol('work')): Promise<T> {
    this.#open.add(id)
    // Dealt with before whoever waits for it goes on: he may submit the next one at once.
    const turn = this.#last.then(work).finally(() => void this.#open.delete(id))
    this.#last = turn.catch(() => undefined)
    return turn
  }

  async #askToWait(payload: Input): Promise<InputOutcome | undefined> {
    const { vetoed, reason } = await this.#bus.emitVetoable('before:io.wait', payload)
    if (vetoed) return { accepted: false, ...(reason === undefined ? {} : { reason }) }
    await this.#bus.emit('io.wait', payload)
    return undefined
  }

  async #give(payload: Input): Promise<InputOutcome> {
    // The session may have ended, or been lost, while this input waited.
    const late = this.#refusal()
    if (late !== undefined) return late
    const failures: unknown[] = []
    const onFailure = (error: unknown): void => void failures.push(error)
    const { vetoed, reason } = await this.#bus.emitVetoable('before:io.input', payload, { onFailure })
    let turnError: string | undefined
    if (!vetoed) {
      const heed = this.#bus.subscribe('agent.turn.end', ({ payload: { error } }) => void (turnError = error))
      await this.#bus.emit('io.input', payload, { onFailure }).finally(heed)
    }
    return {
      accepted: !vetoed,
      ...(reason === undefined ? {} : { reason }),
      ...(turnError === undefined ? {} : { turnError }),
      ...(failures.length === 0 ? {} : { failed: failures.length, error: failures[0] }),
    }
  }
}
