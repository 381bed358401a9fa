import type { SessionDurability } from '@nexus/durability'
import type { EventBus } from '../../bus/event-bus.ts'

/** The `source` of what the object store's side emits, and of its subscriptions. */
const SOURCE = 'core.object_store'

/** Behind every other subscriber of the input, so that cancelling and commands still work while input is refused. */
const GATE_PRIORITY = 200

/** Before every other handler: a turn counts as begun before anything of it is written. */
const FIRST = -1_000_000

const BOUNDARIES = ['agent.turn.end', 'session.snapshot.request']

/**
 * Tells the durability of a session what happens on the bus, and takes its word on inputs. A boundary is told after all its
 * handlers and after the journal has it, so that the snapshot holds what they wrote and the boundary itself.
 *
 * @returns takes all of it away again
 */
export function joinDurability(bus: EventBus, durability: SessionDurability): () => void {
  const subscriptions = [
    bus.subscribe(
      'before:io.input',
      () => {
        const reason = durability.refusal()
        return reason === undefined ? undefined : { vetoed: true, reason }
      },
      { priority: GATE_PRIORITY, source: SOURCE },
    ),
    bus.subscribe('io.input', () => durability.inputCame(), { priority: FIRST, source: SOURCE }),
    bus.subscribe('agent.turn.start', ({ payload }) => durability.turnBegan(payload.turn_id), {
      priority: FIRST,
      source: SOURCE,
    }),
  ]
  bus.setAfterDispatch(BOUNDARIES, (event) => durability.onBoundary(event))
  return () => {
    for (const unsubscribe of subscriptions) unsubscribe()
    bus.setAfterDispatch(BOUNDARIES, undefined)
  }
}

/** Where the durability of a session tells what it has to tell: on the bus. */
export function tellOn(bus: EventBus): Parameters<SessionDurability['attach']>[0]['tell'] {
  return (type, payload) => bus.emit<string>(type, payload, { source: SOURCE })
}
