import type { Coordinator, JournalEnvelope } from '@nexus/journal'
import type { EventEmitting, VetoOutcome } from '../bus/event.ts'
import type { EventSubscribing } from '../bus/event-bus.ts'
import type { JournaledTurn } from './turn-events.ts'

const GATE = 'before:io.input'
/** After every gate of a plugin: each is asked like it was then. */
const LAST = Number.MAX_SAFE_INTEGER

/** Gives the inputs of a session again as they were given: by way of the gates where those were asked, refused ones as well. */
export class GivenInputs {
  readonly #inputs: readonly JournalEnvelope[]
  /** What goes before an input: those that were refused since the one before it. By the id of its event. */
  readonly #before = new Map<string, JournalEnvelope[]>()
  readonly #gated = new Set<string>()
  #refused: JournalEnvelope[] = []
  #verdict: VetoOutcome | undefined

  constructor({ completedInputs }: Coordinator) {
    this.#inputs = completedInputs
  }

  /** Takes note of the next turn, or of an input that was refused. */
  learn({ kind, input, isGated }: JournaledTurn): void {
    if (kind === 'refused') return void this.#refused.push(input)
    this.#before.set(input.event_id, this.#refused)
    this.#refused = []
    if (isGated) this.#gated.add(input.event_id)
  }

  /**
   * What a replay emits to: each `io.input` with what was given around it.
   *
   * @param inputs how many there will be
   */
  through(
    bus: EventEmitting & EventSubscribing,
    inputs: number = this.#inputs.length,
  ): { emit: (type: string, payload: unknown) => Promise<void> } {
    bus.subscribe(GATE, () => this.#verdict, { priority: LAST, source: 'replay' })
    let given = 0
    return {
      emit: async (type, payload) => {
        const id = this.#inputs[given++]?.event_id ?? ''
        await this.#refuse(bus, this.#before.get(id))
        if (this.#gated.has(id)) {
          const { vetoed } = await bus.emitVetoable<string>(GATE, payload)
          if (vetoed) return
        }
        await bus.emit(type, payload)
        if (given === inputs) await this.#refuse(bus, this.#refused)
      },
    }
  }

  async #refuse(bus: EventEmitting, refused: readonly JournalEnvelope[] = []): Promise<void> {
    for (const { payload, veto_reason: reason } of refused) {
      this.#verdict = { vetoed: true, ...(reason === undefined ? {} : { reason }) }
      try {
        await bus.emitVetoable<string>(GATE, payload)
      } finally {
        this.#verdict = undefined
      }
    }
  }
}
