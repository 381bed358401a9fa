import { InvalidArgumentError, type Command } from '@commander-js/extra-typings'
import { collectGarbage, type CollectedSession } from '@nexus/engine/history'
import { collectOrphans } from '@nexus/inspect'
import type { ExitCode } from '../../exit-codes.ts'
import { withConsent } from '../../frame/confirm.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { counted, plain } from '../../frame/text.ts'
import { formatBytes } from '../../output.ts'
import { requireStore } from '../../frame/require-store.ts'

const DAY_MS = 86_400_000

/** Adds `nexus store gc`. */
export function gcCommand(parent: Command, frame: Frame): void {
  parent
    .command('gc')
    .summary('remove what nothing needs any more')
    .description(
      'Removes objects of mirror sessions that no commit names, generations of versioned sessions that core.object_store.keep lets go, sessions whose core.object_store.ttl is over, and what arrived late for removed ones. Left alone are sessions whose owner looks live where something of theirs is committed, damaged ones, objects that are younger than --older-than, and what a resume may still take. Shows what would go, and does it with --yes.',
    )
    .option(
      '--older-than <days>',
      'only objects, and with --forget-removed only removals, that are so many days old, such as 30 or 30d',
      daysOf,
      7,
    )
    .option(
      '--claim',
      'commit a claim to each versioned session, which fences whoever has it open, and remove young packs as well',
      false,
    )
    .option(
      '--forget-removed',
      'delete what is left of versioned sessions that were removed: a host that stood still since may begin them anew',
      false,
    )
    .option('--force', 'with --claim: also sessions whose owner looks live', false)
    .action(async (options) => await frame.run(async (context) => await collect(context, options)))
}

interface GcOptions {
  olderThan: number
  claim: boolean
  forgetRemoved: boolean
  force: boolean
}

function daysOf(text: string): number {
  const days = Number(text.replace(/d$/, ''))
  if (text.trim() === '' || !(days >= 0)) throw new InvalidArgumentError('It must be a number of days from 0.')
  return days
}

async function collect(context: Context, { olderThan, claim, forgetRemoved, force }: GcOptions): Promise<ExitCode> {
  const store = await requireStore(context)
  const { signal } = context
  const olderThanMs = olderThan * DAY_MS
  const options = { olderThanMs, signal }
  const keep = (await context.places()).loaded.config.core.objectStore?.keep
  const versioned = { signal, keep, claim, force, ...(forgetRemoved ? { forgetRemovedMs: olderThanMs } : {}) }
  const found = await collectOrphans(store, { ...options, dryRun: true })
  const chains = store.capabilities.putIfAbsent ? await collectGarbage(store, { ...versioned, dryRun: true }) : []
  const value = {
    objects: found.removed.length,
    bytes: found.bytes,
    keys: found.removed.map(({ key }) => key),
    kept: found.kept,
    versioned: chains,
  }
  const lines = [
    ...found.removed.map(({ key }) => `  ${plain(key)}`),
    ...found.kept.map(({ id, why }) => `  session ${id} is left alone: ${why}`),
    ...chains.map((each) => `  session ${each.id}: ${plain(whatGoes(each))}`),
    `${counted(found.removed.length, 'object')} that no commit names, ${formatBytes(found.bytes)}; ${goneOf(chains)}`,
    ...(claim ? ['each of the versioned sessions is claimed first: a host that has one open loses it'] : []),
  ]
  return await withConsent(context, { value, lines }, async () => {
    const { removed, bytes } = await collectOrphans(store, options)
    const gone = store.capabilities.putIfAbsent ? await collectGarbage(store, versioned) : []
    return `removed ${counted(removed.length, 'object')}, ${formatBytes(bytes)}; ${goneOf(gone)}`
  })
}

function whatGoes({ commits, packs, ended, forgotten, kept }: CollectedSession): string {
  if (kept !== undefined) return `left alone: ${kept}`
  if (forgotten === true) return 'was removed, and is forgotten'
  if (ended === 'expired') return 'its time is over, all of it goes'
  if (ended === 'orphan') return 'has no commit, all of it goes'
  return `${counted(commits, 'commit')}, ${counted(packs, 'pack')}`
}

function goneOf(chains: readonly CollectedSession[]): string {
  const sum = (of: (chain: CollectedSession) => number): number => chains.reduce((all, each) => all + of(each), 0)
  return `of versioned sessions ${counted(
    sum(({ commits }) => commits),
    'commit',
  )}, ${counted(
    sum(({ packs }) => packs),
    'pack',
  )}`
}
