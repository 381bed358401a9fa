import { type Plugin, type PluginContext } from '@nexus/engine'
import * as v from 'valibot'
import { FIRST } from '../turn/turn-signals.ts'

const schema = v.strictObject({
  /** A turn that takes longer is cancelled; 0: it may take as long as it takes. */
  turn_timeout_ms: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(2 ** 31 - 1)), 0),
})
type Config = v.InferOutput<typeof schema>

/** The plugin, and its door for the program around the engine. */
export interface CancelControl {
  readonly plugin: Plugin
  /**
   * Cancels the turns under way: what works for them stops, and they end. Resolves when everybody was told, with the ids of
   * the turns; none when no turn was under way.
   */
  readonly cancel: (reason?: string) => Promise<string[]>
}

/**
 * `nexus.control.cancel`: cancels the turn under way, when the program says so or when it takes too long. It is told as
 * `agent.turn.cancel`, which anybody else may emit, too.
 *
 * @see docs/guides/standard-plugins.md
 */
export function cancelControl(): CancelControl {
  let turns: OpenTurns | undefined
  const plugin: Plugin<Config> = {
    id: 'nexus.control.cancel',
    name: 'Cancel',
    version: '1.0.0',
    configSchema: schema,
    init(context) {
      turns = new OpenTurns(context)
    },
    shutdown() {
      turns?.close()
      turns = undefined
    },
  }
  return { plugin, cancel: async (reason = 'the user cancelled it') => (await turns?.cancelAll(reason)) ?? [] }
}

class OpenTurns {
  readonly #context: PluginContext<Config>
  readonly #open = new Map<string, NodeJS.Timeout | undefined>()

  constructor(context: PluginContext<Config>) {
    this.#context = context
    const { bus } = context
    bus.subscribe('agent.turn.start', ({ payload }) => this.#begin(payload.turn_id), { priority: FIRST })
    bus.subscribe('agent.turn.end', ({ payload }) => this.#end(payload.turn_id), { priority: FIRST })
  }

  async cancelAll(reason: string): Promise<string[]> {
    const turnIds = [...this.#open.keys()]
    await Promise.all(turnIds.map((turnId) => this.#cancel(turnId, reason)))
    return turnIds
  }

  close(): void {
    for (const timer of this.#open.values()) clearTimeout(timer)
  }

  #begin(turnId: string): void {
    this.#end(turnId)
    const { turn_timeout_ms: limitMs } = this.#context.config
    const late = (): void => void this.#cancel(turnId, `it took longer than ${limitMs} ms`)
    this.#open.set(turnId, limitMs === 0 ? undefined : setTimeout(late, limitMs))
  }

  #end(turnId: string): void {
    clearTimeout(this.#open.get(turnId))
    this.#open.delete(turnId)
  }

  #cancel(turnId: string, reason: string): Promise<void> {
    const { bus, session } = this.#context
    return bus.emit('agent.turn.cancel', { turn_id: turnId, session_id: session.id, reason })
  }
}
