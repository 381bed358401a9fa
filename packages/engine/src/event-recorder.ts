import type { JournalWriter } from '@nexus/journal'
import type { NexusEvent, VetoOutcome } from './bus/event.ts'
import type { EventSubscribing } from './bus/event-bus.ts'
import type { EventRecorder } from './bus/recorder.ts'
import { isSideEffect, isWrittenAhead } from './bus/events.ts'

/** The part of the journal writer that recording needs. */
export type RecorderJournal = Pick<JournalWriter, 'append' | 'committed' | 'turnEnded' | 'behind'>

/** What of the journal's configuration the recorder follows. */
export interface RecordingPolicy {
  fsync: 'turn-boundary' | 'every-event' | 'none'
  /** Types that are dispatched but not recorded, and take no sequence number. */
  excludeEvents: readonly string[]
}

interface TypeRule {
  readonly excluded: boolean
  readonly sideEffect: true | undefined
  readonly endsTurn: boolean
  readonly append: { writeThrough: true } | undefined
}

const WRITE_THROUGH: { writeThrough: true } = { writeThrough: true }

/** Type names are remembered up to this number, so that made-up ones can't fill the memory. */
const MAX_REMEMBERED_TYPES = 1024

/**
 * Hands every event of a bus to the session's journal.
 *
 * A turn's end holds its emit until the journal has done what the fsync policy demands; under `every-event` each emit
 * waits for the fsync that it shares with its neighbours.
 *
 * @see docs/concepts/session.md
 */
export class JournalRecorder implements EventRecorder {
  readonly #journal: RecorderJournal
  readonly #syncFiles: () => Promise<void>
  readonly #everyEvent: boolean
  readonly #excluded: ReadonlySet<string>
  readonly #rules = new Map<string, TypeRule>()

  /** @param syncFiles makes the session's files durable; a turn has ended when they and the journal are */
  constructor(journal: RecorderJournal, policy: RecordingPolicy, syncFiles: () => Promise<void> = async () => {}) {
    this.#journal = journal
    this.#syncFiles = syncFiles
    this.#everyEvent = policy.fsync === 'every-event'
    this.#excluded = new Set(policy.excludeEvents)
  }

  record(event: NexusEvent, outcome?: VetoOutcome): number | undefined {
    const rule = this.#ruleOf(event.type)
    if (rule.excluded) return undefined
    const { causation } = event
    const vetoed = outcome?.vetoed === true
    const seq = this.#journal.append(
      {
        ts: event.timestamp,
        type: event.type,
        event_id: event.id,
        source: event.source,
        parent_seq: causation.parent_seq,
        parent_id: causation.parent_id,
        session_id: causation.session_id,
        agent_id: causation.agent_id || undefined,
        depth: causation.depth,
        side_effect: rule.sideEffect,
        vetoed: vetoed ? true : undefined,
        veto_reason: vetoed ? outcome.reason : undefined,
        payload: event.payload,
      },
      rule.append,
    )
    // A closed journal takes nothing and answers 0.
    return seq === 0 ? undefined : seq
  }

  settled(event: NexusEvent): Promise<void> | undefined {
    const rule = this.#ruleOf(event.type)
    if (rule.excluded) return undefined
    if (rule.endsTurn) return this.#endTurn()
    return this.#everyEvent ? this.#journal.committed() : undefined
  }

  async #endTurn(): Promise<void> {
    const [files, journal] = await Promise.allSettled([this.#syncFiles(), this.#journal.turnEnded()])
    if (journal.status === 'rejected') throw journal.reason
    if (files.status === 'rejected') throw files.reason
  }

  #ruleOf(type: string): TypeRule {
    const known = this.#rules.get(type)
    if (known !== undefined) return known
    const rule: TypeRule = {
      excluded: this.#excluded.has(type),
      sideEffect: isSideEffect(type) || undefined,
      endsTurn: type === 'agent.turn.end',
      append: isWrittenAhead(type) ? WRITE_THROUGH : undefined,
    }
    if (this.#rules.size >= MAX_REMEMBERED_TYPES) this.#rules.clear()
    this.#rules.set(type, rule)
    return rule
  }
}

/** Just before the gate of the object store, so that no two handlers of the input share a priority. */
const JOURNAL_GATE_PRIORITY = 190

/**
 * Vetoes new input, with the reason, for as long as the journal can't write what it was given: a turn that can't be
 * recorded must not begin. Returns what takes the gate away again.
 */
export function subscribeJournalGate(bus: EventSubscribing, journal: Pick<RecorderJournal, 'behind'>): () => void {
  return bus.subscribe(
    'before:io.input',
    () => {
      const { behind } = journal
      if (behind === undefined) return undefined
      return { vetoed: true, reason: `the journal can't be written: ${behind.message}` }
    },
    { priority: JOURNAL_GATE_PRIORITY, source: 'core.journal' },
  )
}
