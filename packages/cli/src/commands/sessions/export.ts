import type { Command } from '@commander-js/extra-typings'
import { exportSession } from '@nexus/inspect'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { fromOption, type FromOptions } from '../../frame/from-option.ts'
import { openForReading } from '../../frame/places.ts'
import { showProgress } from '../../frame/progress.ts'
import { counted } from '../../frame/text.ts'
import { formatBytes } from '../../output.ts'

/** Adds `nexus sessions export`. */
export function exportCommand(parent: Command, frame: Frame): void {
  parent
    .command('export')
    .summary('write a session as one file, or as a directory')
    .description(
      'Writes a session as one .tar.zst that any tar can read, with all its bytes, modes, times and links. A session that runs here is exported with --from store, as it was last committed.',
    )
    .argument('<id>', 'the session')
    .argument('[dest]', 'where to (default: <id>.tar.zst, or <id> with --dir)')
    .option('--dir', 'write a directory with the same content', false)
    .addOption(fromOption())
    .action(async (id, dest, options) => await frame.run(async (context) => await write(context, id, dest, options)))
}

async function write(
  context: Context,
  id: string,
  dest: string | undefined,
  { from, dir }: FromOptions & { dir: boolean },
): Promise<ExitCode> {
  await using session = await openForReading(await context.places(), id, from, context.signal)
  const progress = showProgress(context, 'exporting')
  const written = await exportSession(session, dest ?? (dir ? id : `${id}.tar.zst`), {
    directory: dir,
    signal: context.signal,
    onProgress: progress.on,
  }).finally(progress.end)
  const { path, files, bytes, lastSeq } = written
  const value = {
    id,
    source: session.source,
    where: session.where,
    generation: session.generation ?? null,
    path,
    files,
    bytes,
    last_seq: lastSeq,
  }
  context.result(value, () => [
    `${path}: ${counted(files, 'file')}, ${formatBytes(bytes)}, ${counted(lastSeq, 'event')}, read from ${session.where}`,
  ])
  return EXIT.ok
}
