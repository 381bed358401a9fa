import { join } from 'node:path'
import { readOpenTurn, REFIRED_SOURCE, type OpenTurn } from '@nexus/journal'
import type { EventBus } from '../../bus/event-bus.ts'
import type { EventMap } from '../../bus/event-map.ts'
import type { Logger } from '@nexus/host'
import type { PlacedTree } from './place-tree.ts'

/** What the agent is told of a call whose result the last run never saw. */
const INTERRUPTED = 'interrupted: the process ended while the tool ran, and whether it took effect is not known'

/**
 * How the journal of a tree ends; undefined for a new one. Of a tree that was given up for the last commit, its unfinished
 * input is what counts.
 */
export async function openTurnOf({ dir, resumed, openTurn: givenUp }: PlacedTree): Promise<OpenTurn | undefined> {
  if (!resumed) return undefined
  const open = await readOpenTurn(join(dir, 'journal'))
  return givenUp === undefined ? open : { ...open, partialInput: givenUp.partialInput }
}

/**
 * Answers the tool calls that a killed run left open, so that a conversation built from the journal pairs every call with
 * a result. No tool is run again by this.
 */
export async function answerInterruptedCalls({ unansweredCalls }: OpenTurn, bus: EventBus): Promise<void> {
  for (const { payload } of unansweredCalls) {
    const { id, name, turn_id: turnId } = payload as EventMap['tool.invoke']
    await bus.emit('tool.result', {
      id,
      name,
      error: INTERRUPTED,
      ...(turnId === undefined ? {} : { turn_id: turnId }),
    })
  }
}

/**
 * Gives the input of a turn that a killed run left open to the agent once more, through the gates as any input. Once only:
 * an input that crashes the process would crash every restart. Not awaited by the boot: a turn takes as long as it takes,
 * and a stop waits for it like for every other event. Never rejects: a stop in between closes the bus, and the next resume
 * finds the turn open again.
 *
 * @see docs/concepts/session.md
 */
export async function refirePartialTurn({ partialInput }: OpenTurn, bus: EventBus, logger: Logger): Promise<void> {
  if (partialInput === undefined) return
  if (partialInput.source === REFIRED_SOURCE) {
    logger.error(
      { seq: partialInput.seq },
      'the process ended within this turn when its input was given again, too: it is left alone. Give the input anew to try once more',
    )
    return
  }
  const payload = partialInput.payload as EventMap['io.input']
  logger.info({ seq: partialInput.seq }, 'the last run ended within a turn: its input is given to the agent again')
  try {
    const { vetoed, reason } = await bus.emitVetoable('before:io.input', payload, { source: REFIRED_SOURCE })
    if (vetoed) logger.warn({ seq: partialInput.seq, reason }, 'the input of the unfinished turn was refused')
    else await bus.emit('io.input', payload, { source: REFIRED_SOURCE })
  } catch (error) {
    logger.warn({ err: error, seq: partialInput.seq }, 'the unfinished turn was not taken up again')
  }
}
