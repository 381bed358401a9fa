import type { Command } from '@commander-js/extra-typings'
import { purgeHistory, sessionHistory } from '@nexus/engine/history'
import type { ExitCode } from '../../exit-codes.ts'
import { withConsent } from '../../frame/confirm.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { withSessionLock } from '../../frame/session-lock.ts'
import { counted } from '../../frame/text.ts'
import { formatBytes } from '../../output.ts'
import { requireChain, versionedStore } from './versioned-session.ts'

/** Adds `nexus sessions purge`. */
export function purgeCommand(parent: Command, frame: Frame): void {
  parent
    .command('purge')
    .summary('leave nothing of a versioned session but its newest tree')
    .description(
      'Commits the newest tree of a versioned session once more, of newly stored content, and takes away everything before it, for privacy. A host that has it open has lost it then. What versions of objects, soft delete, object locks and backups of the bucket hold, and trees that hosts have set aside, is not reached. Shows what would go, and does it with --yes. A session whose owner looks live is refused.',
    )
    .argument('<id>', 'the session')
    .requiredOption('--history', 'everything but the newest tree: there is nothing else to purge')
    .option('--force', 'although its owner looks live', false)
    .action(async (id, options) => await frame.run(async (context) => await purge(context, id, options.force)))
}

async function purge(context: Context, id: string, force: boolean): Promise<ExitCode> {
  const versioned = await versionedStore(context)
  await requireChain(versioned, id)
  const { store, options, ttlMs } = versioned
  const entries = await sessionHistory(store, id, options)
  const [newest] = entries
  const { files = 0, bytes = 0 } = newest?.totals ?? {}
  const value = { id, generation: newest?.generation ?? null, generations: entries.length, files, bytes }
  const lines = [
    `keeps generation ${newest?.generation} of ${id}: ${counted(files, 'file')}, ${formatBytes(bytes)}, which are stored once more`,
    `takes away ${counted(entries.length, 'generation')} and everything older; a host that has the session open loses it`,
    'not reached: object versions, soft delete, object locks and backups of the bucket; trees that hosts have set aside',
  ]
  return await withConsent(context, { value, lines }, async () => {
    const { generation, removed } = await withSessionLock(context, id, { force, what: 'purge' }, () =>
      purgeHistory(store, id, { ...options, ttlMs, force }),
    )
    return `session ${id} is generation ${generation}; ${counted(removed, 'object')} taken away`
  })
}
