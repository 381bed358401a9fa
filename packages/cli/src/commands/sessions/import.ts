import type { Command } from '@commander-js/extra-typings'
import { importSession } from '@nexus/inspect'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { showProgress } from '../../frame/progress.ts'
import { counted } from '../../frame/text.ts'
import { formatBytes } from '../../output.ts'
import { UsageError } from '../../usage-error.ts'

/** Adds `nexus sessions import`. */
export function importCommand(parent: Command, frame: Frame): void {
  parent
    .command('import')
    .summary('bring an exported session to this machine')
    .description(
      'Brings an exported session to this machine, under its own id or another one. Everything is checked before anything is placed. With --overwrite and --yes it replaces a session that is here.',
    )
    .argument('<archive>', 'a file or a directory that export wrote')
    .option('--as <id>', 'the id that it gets (default: its own)')
    .option('--overwrite', 'replace a session of that id; needs --yes', false)
    .action(async (archive, options) => await frame.run(async (context) => await bring(context, archive, options)))
}

async function bring(
  context: Context,
  archive: string,
  { as: id, overwrite }: { as?: string | undefined; overwrite: boolean },
): Promise<ExitCode> {
  const { sessionsRoot, openStore } = await context.places()
  const store = await openStore()
  if (overwrite && !context.globals.yes) {
    throw new UsageError('--overwrite may destroy the session that is there: give --yes with it')
  }
  const progress = showProgress(context, 'importing')
  const imported = await importSession(archive, {
    sessionsRoot,
    overwrite,
    signal: context.signal,
    onProgress: progress.on,
    ...(id === undefined ? {} : { id }),
    ...(store === undefined ? {} : { store }),
  }).finally(progress.end)
  const { dir, files, bytes, replaced, exportedId } = imported
  context.result({ id: imported.id, exported_id: exportedId, dir, files, bytes, replaced }, () => [
    `${dir}: ${counted(files, 'file')}, ${formatBytes(bytes)}${replaced ? '; the session that was there is gone' : ''}`,
  ])
  return EXIT.ok
}
