import type { Command } from '@commander-js/extra-typings'
import { verifySession } from '@nexus/inspect'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { fromOption, type FromOptions } from '../../frame/from-option.ts'
import { openForReading } from '../../frame/places.ts'
import { counted } from '../../frame/text.ts'

/** Adds `nexus sessions verify`. */
export function verifyCommand(parent: Command, frame: Frame): void {
  parent
    .command('verify')
    .summary('look for damage: digests, databases, journal')
    .description(
      'Reads a session through: objects of a store against the digests of the commit, blobs on this machine against their names, databases by the check of SQLite, the journal for gaps. Changes nothing. Exit code 1 when anything is wrong.',
    )
    .argument('<id>', 'the session')
    .addOption(fromOption())
    .action(async (id, options) => await frame.run(async (context) => await check(context, id, options)))
}

async function check(context: Context, id: string, { from }: FromOptions): Promise<ExitCode> {
  await using session = await openForReading(await context.places(), id, from, context.signal)
  const found = await verifySession(session, { signal: context.signal })
  const { ok, filesChecked, databasesChecked, journal, problems } = found
  const value = {
    id,
    source: session.source,
    where: session.where,
    generation: session.generation ?? null,
    ok,
    files_checked: filesChecked,
    databases_checked: databasesChecked,
    journal: journal === undefined ? null : { events: journal.events, last_seq: journal.lastSeq },
    problems,
  }
  context.result(value, () => [
    `${id}: ${counted(filesChecked, 'file')} with a digest, ${counted(databasesChecked, 'database')}, ${counted(journal?.events ?? 0, 'event')}, read from ${session.where}`,
    ...(problems.length === 0
      ? []
      : context.table([['path', 'problem'], ...problems.map(({ path, problem }) => [path, problem])])),
    ok ? context.style('green', 'Nothing is wrong.') : context.style('red', counted(problems.length, 'problem')),
  ])
  return ok ? EXIT.ok : EXIT.failed
}
