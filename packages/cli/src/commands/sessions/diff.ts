import { InvalidArgumentError, type Command } from '@commander-js/extra-typings'
import { diffSessions, type DiffSide } from '@nexus/engine/history'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { plain } from '../../frame/text.ts'
import { countOf } from './history.ts'
import { requireChain, versionedStore } from './versioned-session.ts'

/** Adds `nexus sessions diff`. */
export function diffCommand(parent: Command, frame: Frame): void {
  parent
    .command('diff')
    .summary('what differs between two generations, of one versioned session or of two')
    .description(
      'Names the paths that were added, removed or changed between two generations in the object store. Each side is a session, or a session, @ and a generation; without a generation the newest is meant. Changes nothing. Exit code 1 when anything differs.',
    )
    .argument('<before>', 'as essay@3, or essay', sideOf)
    .argument('[after]', 'as essay@5, or another session (default: the newest of the same)', sideOf)
    .action(async (before, after) => await frame.run(async (context) => await compare(context, before, after)))
}

/** `id` or `id@generation`: no id has an `@` in it. */
function sideOf(text: string): DiffSide {
  const [id = '', generation, ...rest] = text.split('@')
  if (id === '' || rest.length > 0) throw new InvalidArgumentError('It must be a session, or a session@generation.')
  return generation === undefined ? { id } : { id, generation: countOf(generation) }
}

async function compare(context: Context, before: DiffSide, other: DiffSide | undefined): Promise<ExitCode> {
  const versioned = await versionedStore(context)
  const after = other ?? { id: before.id }
  for (const id of new Set([before.id, after.id])) await requireChain(versioned, id)
  const diff = await diffSessions(versioned.store, before, after, versioned.options)
  const { added, removed, changed } = diff
  context.result(diff, () => [
    ...removed.map((path) => context.style('red', `- ${plain(path)}`)),
    ...changed.map((path) => context.style('yellow', `~ ${plain(path)}`)),
    ...added.map((path) => context.style('green', `+ ${plain(path)}`)),
    `${nameOf(diff.before)} to ${nameOf(diff.after)}: ${added.length} added, ${removed.length} removed, ${changed.length} changed`,
  ])
  return added.length + removed.length + changed.length === 0 ? EXIT.ok : EXIT.failed
}

function nameOf({ id, generation }: DiffSide): string {
  return `${id}@${generation}`
}
