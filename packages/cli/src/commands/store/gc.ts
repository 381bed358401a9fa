import { InvalidArgumentError, type Command } from '@commander-js/extra-typings'
import { collectOrphans } from '@nexus/inspect'
import type { ExitCode } from '../../exit-codes.ts'
import { withConsent } from '../../frame/confirm.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { counted } from '../../frame/text.ts'
import { formatBytes } from '../../output.ts'
import { requireStore } from './require-store.ts'

const DAY_MS = 86_400_000

/** Adds `nexus store gc`. */
export function gcCommand(parent: Command, frame: Frame): void {
  parent
    .command('gc')
    .summary('remove objects that no commit names')
    .description(
      'Removes objects of sessions that no commit names. Left alone are sessions whose owner looks live, damaged ones, objects that are younger than --older-than, and what a resume may still take. Shows what would go, and does it with --yes.',
    )
    .option('--older-than <days>', 'only objects that are so many days old', daysOf, 7)
    .action(async (options) => await frame.run(async (context) => await collect(context, options.olderThan)))
}

function daysOf(text: string): number {
  const days = Number(text)
  if (text.trim() === '' || !(days >= 0)) throw new InvalidArgumentError('It must be a number of days from 0.')
  return days
}

async function collect(context: Context, olderThanDays: number): Promise<ExitCode> {
  const store = await requireStore(context)
  const options = { olderThanMs: olderThanDays * DAY_MS, signal: context.signal }
  const found = await collectOrphans(store, { ...options, dryRun: true })
  const value = {
    objects: found.removed.length,
    bytes: found.bytes,
    keys: found.removed.map(({ key }) => key),
    kept: found.kept,
  }
  const lines = [
    ...found.removed.map(({ key }) => `  ${key}`),
    ...found.kept.map(({ id, why }) => `  session ${id} is left alone: ${why}`),
    `${counted(found.removed.length, 'object')} that no commit names, ${formatBytes(found.bytes)}`,
  ]
  return await withConsent(context, { value, lines }, async () => {
    const { removed, bytes } = await collectOrphans(store, options)
    return `removed ${counted(removed.length, 'object')}, ${formatBytes(bytes)}`
  })
}
