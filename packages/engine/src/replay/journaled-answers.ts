import { NexusError } from '@nexus/errors'
import type { Coordinator, JournalEnvelope } from '@nexus/journal'
import type { NexusEvent } from '../bus/event.ts'
import type { EventMap } from '../bus/event-map.ts'
import type { EventSubscribing } from '../bus/event-bus.ts'
import { isAnswer } from '../bus/events.ts'

/** What a turn met besides answers. */
interface Course {
  /** When it was cancelled: after how many requests, of which so many had been answered. */
  cancel?: { asked: number; answered: number; payload: unknown }
  /** Why it failed. */
  error?: string
}

/** Says in a replay what models, tools and people said, and cancels and fails where that happened then. */
export class JournaledAnswers {
  readonly #coordinator: Coordinator
  readonly #courses = new Map<string, Course>()
  #course: Course = {}
  #asked = 0

  constructor(coordinator: Coordinator) {
    this.#coordinator = coordinator
  }

  /** Takes note of how a turn went that will be taken again. */
  learn(turn: readonly JournalEnvelope[]): void {
    const course: Course = {}
    let [asked, answered] = [0, 0]
    for (const { type, payload } of turn) {
      if (type === 'llm.request' || type === 'tool.invoke') asked++
      else if (isAnswer(type)) answered++
      else if (type === 'agent.turn.cancel') course.cancel ??= { asked, answered, payload }
      else if (type === 'agent.turn.end') {
        const { turn_id: turnId, error } = payload as EventMap['agent.turn.end']
        if (error !== undefined) course.error = error
        if (error !== undefined) this.#courses.set(turnId, course)
      }
    }
  }

  /** Answers on this bus from now on. */
  answerOn(bus: EventSubscribing): void {
    bus.subscribe('agent.turn.start', ({ payload }) => {
      this.#course = this.#courses.get(payload.turn_id) ?? {}
      this.#asked = 0
    })
    bus.subscribe('llm.request', (event) => this.#answer(event, 'llm.response', () => this.#coordinator.llmResponse()))
    bus.subscribe('tool.invoke', (event) =>
      this.#answer(event, 'tool.result', () => this.#coordinator.toolResult(event.payload)),
    )
    bus.subscribeAll((event) => this.#respond(event), {
      filter: ({ type }) => type.startsWith('hitl.') && !isAnswer(type),
    })
  }

  async #answer(event: NexusEvent, type: string, find: () => Promise<unknown>): Promise<void> {
    const { cancel, error } = this.#course
    const at = ++this.#asked
    const isCancelledHere = cancel?.asked === at
    if (isCancelledHere && cancel.answered < at) await event.emit<string>('agent.turn.cancel', cancel.payload)
    const answer = await find()
    if (answer !== undefined) await event.emit(type, answer)
    else if (error !== undefined && cancel === undefined) throw new NexusError('UNAVAILABLE', error, { op: 'replay' })
    if (isCancelledHere && cancel.answered >= at) await event.emit<string>('agent.turn.cancel', cancel.payload)
  }

  async #respond(event: NexusEvent): Promise<void> {
    const answer = await this.#coordinator.hitlResponse()
    if (answer !== undefined) await event.emit('hitl.responded', answer)
  }
}
