import { NexusError } from '@nexus/errors'
import type { Coordinator } from '@nexus/journal'
import type { NexusEvent, VetoOutcome } from '../bus/event.ts'
import type { EventMap } from '../bus/event-map.ts'
import type { EventSubscribing } from '../bus/event-bus.ts'
import { isAnswer } from '../bus/events.ts'
import type { JournaledTurn } from './turn-events.ts'

/** What a turn met besides answers. */
interface Course {
  /** When it was cancelled: after how many requests, of which so many had been answered. */
  cancel?: { asked: number; answered: number; payload: unknown }
  /** Why it failed. */
  error?: string
  /** What gates refused: the type, which of its questions, and why. */
  vetoes?: { type: string; at: number; reason: string | undefined }[]
}

/** The tool itself was run, and has said what came of it. */
const ANSWERED = Symbol('answered')

/** Before every handler of a plugin. */
const FIRST = -Number.MAX_SAFE_INTEGER
/** After all of them: a gate that refuses by itself is asked like it was then. */
const LAST = Number.MAX_SAFE_INTEGER

/**
 * Says in a replay what models, tools, people and gates said, and cancels and fails where that happened then. A gate may have
 * refused for reasons that a replay knows nothing of, such as other sessions; it may always refuse more than then.
 */
export class JournaledAnswers {
  /** Tools that were answered for: what they did to the session then is not there. */
  readonly told: Set<string> = new Set()
  readonly #coordinator: Coordinator
  readonly #courses = new Map<string, Course>()
  readonly #gates = new Set<string>()
  #course: Course = {}
  #asked = 0
  #questions = new Map<string, number>()
  /** Settles when the turn under way has ended. */
  #ended: Promise<void> = Promise.resolve()
  #release: () => void = () => undefined

  constructor(coordinator: Coordinator) {
    this.#coordinator = coordinator
  }

  /** Takes note of how a turn went that will be taken again. */
  learn({ kind, events }: JournaledTurn): void {
    if (kind !== 'turn') return
    const course: Course = {}
    const questions = new Map<string, number>()
    let [asked, answered] = [0, 0]
    for (const { type, payload, vetoed, veto_reason: reason } of events) {
      if (type === 'llm.request' || type === 'tool.invoke') asked++
      else if (isAnswer(type)) answered++
      else if (type === 'agent.turn.cancel') course.cancel ??= { asked, answered, payload }
      else if (type.startsWith('before:')) {
        const at = count(questions, type)
        if (vetoed !== true) continue
        this.#gates.add(type)
        course.vetoes = [...(course.vetoes ?? []), { type, at, reason }]
      } else if (type === 'agent.turn.end') {
        const { turn_id: turnId, error } = payload as EventMap['agent.turn.end']
        if (error !== undefined) course.error = error
        if (error !== undefined || course.vetoes !== undefined) this.#courses.set(turnId, course)
        return
      }
    }
  }

  /**
   * Answers on this bus from now on.
   *
   * @param rebuilding tools of the session's own run again: each that gives a result is not answered for
   */
  answerOn(bus: EventSubscribing, rebuilding = false): void {
    bus.subscribe('agent.turn.start', ({ payload }) => this.#enter(this.#courses.get(payload.turn_id)), {
      priority: FIRST,
    })
    bus.subscribe(
      'agent.turn.end',
      () => {
        this.#enter({})
        this.#coordinator.turnEnded()
      },
      { priority: FIRST },
    )
    bus.subscribe('llm.request', (event) => this.#answer(event, 'llm.response', () => this.#coordinator.llmResponse()))
    const answered = new Set<string>()
    bus.subscribe('tool.result', ({ payload }) => void answered.add(payload.id), { priority: FIRST })
    bus.subscribe(
      'tool.invoke',
      (event) =>
        this.#answer(event, 'tool.result', async () => {
          // Taken in any case, or a later call would get it.
          const result = await this.#coordinator.toolResult(event.payload)
          if (!answered.delete(event.payload.id)) return result
          return ANSWERED
        }),
      rebuilding ? { priority: LAST } : {},
    )
    bus.subscribeAll((event) => this.#respond(event), {
      filter: ({ type }) => type.startsWith('hitl.') && !isAnswer(type),
    })
    for (const type of this.#gates) {
      bus.subscribe(type, () => void count(this.#questions, type), { priority: FIRST, source: 'replay' })
      bus.subscribe(type, () => this.#verdict(type), { priority: LAST, source: 'replay' })
    }
  }

  #enter(course: Course = {}): void {
    this.#release()
    this.#ended = new Promise((resolve) => {
      this.#release = resolve
    })
    this.#course = course
    this.#asked = 0
    this.#questions = new Map()
  }

  #verdict(type: string): VetoOutcome | undefined {
    const at = this.#questions.get(type)
    const veto = this.#course.vetoes?.find((each) => each.type === type && each.at === at)
    return veto && { vetoed: true, ...(veto.reason === undefined ? {} : { reason: veto.reason }) }
  }

  async #answer(event: NexusEvent, type: string, find: () => Promise<unknown>): Promise<void> {
    const { cancel, error } = this.#course
    const at = ++this.#asked
    const isCancelledHere = cancel?.asked === at
    if (isCancelledHere && cancel.answered < at) await event.emit<string>('agent.turn.cancel', cancel.payload)
    const answer = await find()
    if (answer === ANSWERED) return
    if (type === 'tool.result') this.told.add((event.payload as EventMap['tool.invoke']).name)
    if (answer !== undefined) await event.emit(type, answer)
    // What never answered is waited for by nobody once its turn has ended.
    else if (isCancelledHere) await this.#ended
    else if (error !== undefined && cancel === undefined) throw new NexusError('UNAVAILABLE', error, { op: 'replay' })
    if (isCancelledHere && cancel.answered >= at) await event.emit<string>('agent.turn.cancel', cancel.payload)
  }

  async #respond(event: NexusEvent): Promise<void> {
    const answer = await this.#coordinator.hitlResponse()
    if (answer !== undefined) await event.emit('hitl.responded', answer)
  }
}

/** Counts one more; returns how many there are now. */
function count(counts: Map<string, number>, key: string): number {
  const next = (counts.get(key) ?? 0) + 1
  counts.set(key, next)
  return next
}
