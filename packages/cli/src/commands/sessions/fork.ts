import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from '@commander-js/extra-typings'
import { forkSession } from '@nexus/engine/history'
import { NexusError } from '@nexus/errors'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { counted } from '../../frame/text.ts'
import { formatBytes } from '../../output.ts'
import { countOf } from './history.ts'
import { requireChain, versionedStore } from './versioned-session.ts'

/** Adds `nexus sessions fork`. */
export function forkCommand(parent: Command, frame: Frame): void {
  parent
    .command('fork')
    .summary('make a new session of a generation of a versioned one')
    .description(
      'Makes a new session in the object store of one generation of a versioned session. Its content is copied, so the two share nothing. The session itself is not touched, and may be running.',
    )
    .argument('<id>', 'the session')
    .requiredOption('--as <id>', 'the id of the new one, which was never used')
    .option('--generation <number>', 'which one (default: the newest)', countOf)
    .action(async (id, options) => await frame.run(async (context) => await fork(context, id, options)))
}

async function fork(
  context: Context,
  id: string,
  { as, generation }: { as: string; generation?: number | undefined },
): Promise<ExitCode> {
  const versioned = await versionedStore(context)
  await requireChain(versioned, id)
  const here = join((await context.places()).sessionsRoot, as)
  if (existsSync(here)) {
    throw new NexusError('PRECONDITION', `this machine has a session ${as} (${here}): give another id`, {
      op: 'cli.fork',
      key: as,
    })
  }
  const { store, options, ttlMs } = versioned
  const { forkedFrom, files, bytes, ...forked } = await forkSession(store, id, { ...options, ttlMs, as, generation })
  context.result({ ...forked, forked_from: forkedFrom, files, bytes }, () => [
    `session ${as} is generation ${forkedFrom.generation} of ${id}: ${counted(files, 'file')}, ${formatBytes(bytes)}`,
  ])
  return EXIT.ok
}
