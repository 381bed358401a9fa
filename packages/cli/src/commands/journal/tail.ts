import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from '@commander-js/extra-typings'
import type { JournalEnvelope } from '@nexus/journal'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { fromOption, type FromOptions } from '../../frame/from-option.ts'
import { openForReading } from '../../frame/places.ts'
import { UsageError } from '../../usage-error.ts'
import { eventLine, isOfTypes } from './events.ts'
import { seqOf, typeOption } from './options.ts'

const LOOK_MS = 250

/** Adds `nexus journal tail`. */
export function tailCommand(parent: Command, frame: Frame): void {
  parent
    .command('tail')
    .summary('print the last events, and those to come')
    .description('Prints the last events of a session. With --follow it goes on, as the session runs, until Ctrl-C.')
    .argument('<id>', 'the session')
    .addOption(fromOption())
    .addOption(typeOption())
    .option('-n, --lines <count>', 'how many of the last ones', seqOf, 20)
    .option('-f, --follow', 'wait for more', false)
    .action(async (id, options) => await frame.run(async (context) => await tail(context, id, options)))
}

async function tail(
  context: Context,
  id: string,
  options: FromOptions & { type: string[]; lines: number; follow: boolean },
): Promise<ExitCode> {
  const { from, type, lines, follow } = options
  await using session = await openForReading(await context.places(), id, from, context.signal)
  if (follow && session.source === 'store') {
    throw new UsageError('--follow needs a session on this machine: a store is read at one commit')
  }
  context.note(`read from ${session.where}`)
  const print = (event: JournalEnvelope): void => context.item(event, () => eventLine(event, context.output.columns))
  const last: JournalEnvelope[] = []
  let seq = 0
  for await (const event of await session.journal({ signal: context.signal })) {
    seq = event.seq
    if (!isOfTypes(event, type)) continue
    last.push(event)
    if (last.length > lines) last.shift()
  }
  last.forEach(print)
  if (!follow) return EXIT.ok
  while (!context.signal.aborted) {
    for await (const event of await session.journal({ fromSeq: seq + 1 })) {
      seq = event.seq
      if (isOfTypes(event, type)) print(event)
    }
    await delay(LOOK_MS, undefined, { signal: context.signal }).catch(() => undefined)
  }
  return EXIT.ok
}
