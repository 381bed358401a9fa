import { isNexusError, NexusError } from '@nexus/errors'
import { type Clock, systemClock, within } from '@nexus/host'
import type { JournalDamage } from '../format/damage.ts'
import { nodeFs, type JournalFs } from '../files/journal-fs.ts'
import { refuseWhileWritten } from '../files/open-journals.ts'
import { JournalReader } from '../read/reader.ts'
import type { JournalEnvelope } from '../format/record.ts'
import { ResultStash } from './result-stash.ts'
import { ToolCache } from './tool-cache.ts'
import { fieldOf, Turns } from './turns.ts'

/** What a replay emits to; the engine's bus fits. */
export interface ReplayTarget {
  emit(type: string, payload: unknown): Promise<unknown>
}

/** How a replay goes. */
export interface ReplayOptions {
  /** How long one input may take, in milliseconds. Default {@link TURN_TIMEOUT_MS}. */
  turnTimeoutMs?: number
  /** How many inputs are replayed; default: all. */
  inputs?: number
  signal?: AbortSignal | undefined
  clock?: Clock
}

/** How long a replayed turn may take when nothing else is said, in milliseconds. */
export const TURN_TIMEOUT_MS: number = 120_000

/** A tool call whose journaled result is wanted. */
export interface ToolCall {
  name: string
  arguments?: unknown
  /** Preferred over the name when the journaled result carries one. */
  id?: string
}

/**
 * Knows the turns of a journal and replays them: inputs are emitted again, in order, while handlers that would touch the
 * world ask {@link llmResponse}, {@link toolResult} and {@link hitlResponse} for what the world said in that turn.
 *
 * @see docs/concepts/journal.md
 */
export class Coordinator {
  /** Highest seq met by the scan. */
  readonly lastSeq: number
  /** Faults met by the scan; damaged segments count up to their damage. */
  readonly damage: readonly JournalDamage[]
  readonly #dir: string
  readonly #fs: JournalFs | undefined
  readonly #turns: Turns
  readonly #cache: ToolCache
  #stash: ResultStash | undefined

  private constructor(dir: string, fs: JournalFs | undefined, turns: Turns, reader: JournalReader, lastSeq: number) {
    this.#dir = dir
    this.#fs = fs
    this.#turns = turns
    this.#cache = new ToolCache(dir)
    this.lastSeq = lastSeq
    this.damage = reader.damage
  }

  /**
   * Scans the journal once.
   *
   * @throws `NOT_FOUND`, `UNSUPPORTED`, `CORRUPT` as {@link JournalReader.open} does
   */
  static async open(
    dir: string,
    options: { signal?: AbortSignal | undefined; fs?: JournalFs } = {},
  ): Promise<Coordinator> {
    const reader = await JournalReader.open(dir, { ...options, onSegmentDamage: 'continue' })
    const turns = new Turns()
    let lastSeq = 0
    for await (const events of reader.batches()) {
      for (const event of events) turns.add(event)
      lastSeq = events.at(-1)?.seq ?? lastSeq
    }
    return new Coordinator(dir, options.fs, turns, reader, lastSeq)
  }

  /** Seq of the last `agent.turn.end`; 0 for none. */
  get lastTurnBoundary(): number {
    return this.#turns.lastTurnBoundary
  }

  /** The journal holds an `agent.turn.start` with no `agent.turn.end` after it. */
  get isPartialTurn(): boolean {
    return this.#turns.isPartialTurn
  }

  /** The `io.input` that was not answered: of the turn that never ended, or one whose turn had not begun. */
  get partialInput(): JournalEnvelope | undefined {
    return this.#turns.partialInput
  }

  /** Every `io.input` whose turn ended, in order. One that was interrupted and given again is in it once. */
  get completedInputs(): readonly JournalEnvelope[] {
    return this.#turns.completed.map(({ input }) => input)
  }

  /** A replay is going on: ask for journaled answers instead of the world. */
  get isReplaying(): boolean {
    return this.#stash !== undefined
  }

  /**
   * Emits every completed input again, one after another. The target must not be journaled to the journal that is read.
   *
   * @returns how many inputs were replayed
   * @throws `UNAVAILABLE` when a turn takes too long (later ones are not started), `PRECONDITION` when a replay is going on
   * already, `LOCKED` while this process has the journal open for writing, the signal's reason, or what the target rejects
   * with
   */
  async run(target: ReplayTarget, options: ReplayOptions = {}): Promise<number> {
    if (this.#stash) throw new NexusError('PRECONDITION', 'a replay is going on already', { op: 'journal.replay' })
    // A replay into the session itself would add to what is being read, and count every turn twice.
    refuseWhileWritten(this.#fs ?? nodeFs, this.#dir, 'journal.replay')
    const stash = await this.#openStash(options.signal)
    this.#stash = stash
    const turns = this.#turns.completed.slice(0, options.inputs)
    const floors = turns.map(({ above }) => above)
    for (let i = floors.length - 2; i >= 0; i--) floors[i] = Math.min(floors[i] ?? 0, floors[i + 1] ?? 0)
    try {
      for (const [index, turn] of turns.entries()) {
        stash.enter(turn, floors[index] ?? 0)
        await this.#replay(target, turn.input, options)
      }
    } finally {
      this.#stash = undefined
      await stash.close()
    }
    return turns.length
  }

  async #openStash(signal: AbortSignal | undefined): Promise<ResultStash> {
    const options = {
      onSegmentDamage: 'continue' as const,
      ...(this.#fs && { fs: this.#fs }),
      ...(signal && { signal }),
    }
    const reader = await JournalReader.open(this.#dir, options)
    return new ResultStash(reader.batches())
  }

  async #replay(target: ReplayTarget, input: JournalEnvelope, options: ReplayOptions): Promise<void> {
    const { turnTimeoutMs = TURN_TIMEOUT_MS, clock = systemClock, signal } = options
    signal?.throwIfAborted()
    const late = (): NexusError =>
      new NexusError('UNAVAILABLE', `the replay of input ${input.seq} took longer than ${turnTimeoutMs} ms`, {
        op: 'journal.replay',
        key: input.event_id,
      })
    await within(target.emit('io.input', input.payload), { clock, deadlineMs: turnTimeoutMs, signal, late })
  }

  /** Says that the turn being replayed has ended: from here on what was said after its end is given. */
  turnEnded(): void {
    this.#stash?.leave()
  }

  /** The turn's next journaled `llm.response` payload; undefined when there is none, or no replay. */
  async llmResponse(): Promise<unknown> {
    return (await this.#stash?.take(({ type }) => type === 'llm.response'))?.payload
  }

  /** The turn's next journaled `hitl.responded` payload; undefined when there is none, or no replay. */
  async hitlResponse(): Promise<unknown> {
    return (await this.#stash?.take(({ type }) => type === 'hitl.responded'))?.payload
  }

  /**
   * The journaled `tool.result` payload of a call: from the tool cache when what it has for these arguments is of this very
   * call, else the turn's next one of that tool. Undefined when there is none, or no replay.
   *
   * The cache holds the newest result of a tool for some arguments. Another turn, or another call of the same turn, may
   * have been given another one.
   */
  async toolResult(call: ToolCall): Promise<unknown> {
    const stash = this.#stash
    if (!stash) return undefined
    // Taken even when the cache answers, so that a later call of the same tool does not get this one's result.
    const journaled = await this.#takeToolResult(stash, call)
    const cached = this.#cached(call)
    return isOf(cached, call, stash.turnId) ? cached : journaled?.payload
  }

  async #takeToolResult(stash: ResultStash, call: ToolCall): Promise<JournalEnvelope | undefined> {
    const isResult = (event: JournalEnvelope): boolean =>
      event.type === 'tool.result' && fieldOf(event, 'name') === call.name
    if (call.id !== undefined) {
      const exact = await stash.take((event) => isResult(event) && fieldOf(event, 'id') === call.id)
      if (exact) return exact
    }
    return stash.take(isResult)
  }

  #cached(call: ToolCall): unknown {
    try {
      return this.#cache.get(call.name, call.arguments)
    } catch (error) {
      if (isNexusError(error)) return undefined
      throw error
    }
  }
}

/** Whether a kept result is that of a call. One that doesn't say whose it is goes by its arguments alone. */
function isOf(result: unknown, { id }: ToolCall, turnId: unknown): boolean {
  if (result === undefined) return false
  const { id: itsId, turn_id: itsTurn } = (result ?? {}) as { id?: unknown; turn_id?: unknown }
  return isSame(itsId, id) && isSame(itsTurn, turnId)
}

function isSame(one: unknown, other: unknown): boolean {
  return one === undefined || other === undefined || one === other
}
