import type { Command } from '@commander-js/extra-typings'
import { projectFile } from '@nexus/journal'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { fromOption, type FromOptions } from '../../frame/from-option.ts'
import { openForReading } from '../../frame/places.ts'

/** Adds `nexus journal project`. */
export function projectCommand(parent: Command, frame: Frame): void {
  parent
    .command('project')
    .summary('print the payloads of some types')
    .description('Prints the payloads of the events of these types, a line of JSON each, in order.')
    .argument('<id>', 'the session')
    .argument('<types...>', 'the types, such as io.input')
    .addOption(fromOption())
    .action(
      async (id, types, options) => await frame.run(async (context) => await project(context, id, types, options)),
    )
}

async function project(
  context: Context,
  id: string,
  types: readonly string[],
  { from }: FromOptions,
): Promise<ExitCode> {
  await using session = await openForReading(await context.places(), id, from, context.signal)
  context.note(`read from ${session.where}`)
  await projectFile(
    await session.journalDir(),
    types,
    ({ payload }) => context.output.line(JSON.stringify(payload) ?? 'null'),
    { signal: context.signal },
  )
  return EXIT.ok
}
