import type { Command } from '@commander-js/extra-typings'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { fromOption, type FromOptions } from '../../frame/from-option.ts'
import { openForReading } from '../../frame/places.ts'
import { eventLine, isOfTypes } from './events.ts'
import { seqOf, typeOption } from './options.ts'

/** Adds `nexus journal cat`. */
export function catCommand(parent: Command, frame: Frame): void {
  parent
    .command('cat')
    .summary('print events')
    .description(
      'Prints the events of a session in order: a line each, or with --json the envelope as it is on the disk.',
    )
    .argument('<id>', 'the session')
    .addOption(fromOption())
    .addOption(typeOption())
    .option('--since <seq>', 'from this seq on', seqOf)
    .option('--until <seq>', 'up to this seq', seqOf)
    .action(async (id, options) => await frame.run(async (context) => await cat(context, id, options)))
}

async function cat(
  context: Context,
  id: string,
  options: FromOptions & { type: string[]; since?: number | undefined; until?: number | undefined },
): Promise<ExitCode> {
  const { from, type, since, until = Number.POSITIVE_INFINITY } = options
  await using session = await openForReading(await context.places(), id, from, context.signal)
  context.note(`read from ${session.where}`)
  const reader = await session.journal({ signal: context.signal, ...(since === undefined ? {} : { fromSeq: since }) })
  for await (const event of reader) {
    if (event.seq > until) break
    if (isOfTypes(event, type)) context.item(event, () => eventLine(event, context.output.columns))
  }
  if (reader.damage.length > 0)
    context.note(`the journal is damaged in ${reader.damage.length} places: see journal verify`)
  return EXIT.ok
}
