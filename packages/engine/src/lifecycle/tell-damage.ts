import { join } from 'node:path'
import type { EventBus } from '../bus/event-bus.ts'
import type { RunningSession } from './running-session.ts'

/** Says what was found wrong with the session's journal when it was opened: the journal logged it, and programs hear of it here. */
export async function tellDamage({ dir, journal }: RunningSession, bus: EventBus): Promise<void> {
  const [first] = journal.damage
  if (first === undefined) return
  const more = journal.damage.length === 1 ? '' : ` (and ${journal.damage.length - 1} more)`
  const error = `${join(dir, 'journal', first.file)} is damaged at byte ${first.offset}: ${first.detail}${more}`
  await bus.emit('core.error', { source: 'core.journal', error, fatal: false, retryable: false })
}
