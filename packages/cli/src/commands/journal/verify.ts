import type { Command } from '@commander-js/extra-typings'
import { verify } from '@nexus/journal'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { fromOption, type FromOptions } from '../../frame/from-option.ts'
import { openForReading } from '../../frame/places.ts'

/** Adds `nexus journal verify`. */
export function verifyJournalCommand(parent: Command, frame: Frame): void {
  parent
    .command('verify')
    .summary('look for gaps and damage')
    .description('Reads a journal through and tells every gap and every damaged place. Exit code 1 when there is any.')
    .argument('<id>', 'the session')
    .addOption(fromOption())
    .action(async (id, options) => await frame.run(async (context) => await check(context, id, options)))
}

async function check(context: Context, id: string, { from }: FromOptions): Promise<ExitCode> {
  await using session = await openForReading(await context.places(), id, from, context.signal)
  const { ok, events, lastSeq, sweptSeq, duplicates, gaps, damage } = await verify(await session.journalDir(), {
    signal: context.signal,
  })
  const faults = [...gaps, ...damage].map(({ kind, file, offset, detail }) => ({ kind, file, offset, detail }))
  const value = {
    id,
    source: session.source,
    where: session.where,
    ok,
    events,
    last_seq: lastSeq,
    swept_seq: sweptSeq,
    duplicates,
    faults,
  }
  const rows = faults.map(({ kind, file, offset, detail }) => [kind, file, String(offset), detail])
  context.result(value, () => [
    `${id}: ${events} events up to seq ${lastSeq}, read from ${session.where}`,
    ...(rows.length === 0 ? [] : context.table([['fault', 'file', 'byte', 'what'], ...rows])),
    ok ? context.style('green', 'Nothing is wrong.') : context.style('red', `${faults.length} faults`),
  ])
  return ok ? EXIT.ok : EXIT.failed
}
