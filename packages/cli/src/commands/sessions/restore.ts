import { resolve } from 'node:path'
import type { Command } from '@commander-js/extra-typings'
import { restoreSession } from '@nexus/engine/history'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { counted } from '../../frame/text.ts'
import { formatBytes } from '../../output.ts'
import { countOf } from './history.ts'
import { requireChain, versionedStore } from './versioned-session.ts'

/** Adds `nexus sessions restore`. */
export function restoreCommand(parent: Command, frame: Frame): void {
  parent
    .command('restore')
    .summary('write a generation of a versioned session into a directory')
    .description(
      'Writes the tree of one generation of a versioned session in the object store into a directory that does not exist yet, whole or not at all. The store is only read. With --salvage, what is damaged is left out and listed, and the exit code is 1.',
    )
    .argument('<id>', 'the session')
    .argument('<dir>', 'the directory to make')
    .option('--generation <number>', 'which one (default: the newest)', countOf)
    .option('--salvage', 'bring back what is not damaged', false)
    .action(async (id, dir, options) => await frame.run(async (context) => await restore(context, id, dir, options)))
}

async function restore(
  context: Context,
  id: string,
  dir: string,
  { generation, salvage }: { generation?: number | undefined; salvage: boolean },
): Promise<ExitCode> {
  const versioned = await versionedStore(context)
  await requireChain(versioned, id)
  const to = resolve(dir)
  const restored = await restoreSession(versioned.store, id, { ...versioned.options, generation, to, salvage })
  const { files, bytes, lost } = restored
  const value = { id, generation: restored.generation, to, files, bytes, lost }
  context.result(value, () => [
    `generation ${restored.generation} of ${id}: ${counted(files, 'file')}, ${formatBytes(bytes)}, in ${to}`,
    ...(lost.length === 0 ? [] : context.table([['lost', 'why'], ...lost.map(({ path, why }) => [path, why])])),
  ])
  return lost.length === 0 ? EXIT.ok : EXIT.failed
}
