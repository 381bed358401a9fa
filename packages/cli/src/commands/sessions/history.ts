import { InvalidArgumentError, type Command } from '@commander-js/extra-typings'
import { sessionHistory, type HistoryEntry } from '@nexus/engine/history'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { ago, counted, exact } from '../../frame/text.ts'
import { formatBytes } from '../../output.ts'
import { requireChain, versionedStore } from './versioned-session.ts'

/** Adds `nexus sessions history`. */
export function historyCommand(parent: Command, frame: Frame): void {
  parent
    .command('history')
    .summary('the commits of a versioned session')
    .description(
      'Lists the commits of a versioned session in the object store that core.object_store.keep keeps, newest first. Changes nothing.',
    )
    .argument('<id>', 'the session')
    .option('--limit <count>', 'so many at most', countOf)
    .action(async (id, options) => await frame.run(async (context) => await list(context, id, options.limit)))
}

/** A whole number from 1. */
export function countOf(text: string): number {
  const count = Number(text)
  if (!Number.isSafeInteger(count) || count < 1) throw new InvalidArgumentError('It must be a whole number from 1.')
  return count
}

async function list(context: Context, id: string, limit: number | undefined): Promise<ExitCode> {
  const versioned = await versionedStore(context)
  await requireChain(versioned, id)
  const entries = await sessionHistory(versioned.store, id, { ...versioned.options, limit })
  if (context.globals.json) {
    for (const entry of entries) context.item(rowOf(entry), () => '')
    return EXIT.ok
  }
  const names = ['gen', 'committed', 'kind', 'files', 'size', 'turn']
  for (const line of context.table([names, ...entries.map(cellsOf)])) context.output.line(line)
  const damaged = entries.filter(({ problem }) => problem !== undefined)
  for (const { generation, problem } of damaged) context.note(`generation ${generation}: ${problem}`)
  context.note(`${counted(entries.length, 'generation')} of ${id}`)
  return EXIT.ok
}

function rowOf({
  generation,
  kind,
  completedAt,
  turnId,
  instanceId,
  host,
  totals,
  unstored,
  problem,
}: HistoryEntry): object {
  return {
    generation,
    kind: kind ?? null,
    completed_at: completedAt ?? null,
    ...(turnId === undefined ? {} : { turn_id: turnId }),
    ...(instanceId === undefined ? {} : { instance_id: instanceId }),
    ...(host === undefined ? {} : { host }),
    files: totals?.files ?? null,
    bytes: totals?.bytes ?? null,
    unstored,
    ...(problem === undefined ? {} : { problem }),
  }
}

function cellsOf({ generation, kind, completedAt, turnId, totals }: HistoryEntry): string[] {
  const when = completedAt === undefined ? '-' : `${exact(Date.parse(completedAt))} ${ago(Date.parse(completedAt))}`
  const size = totals === undefined ? ['-', '-'] : [String(totals.files), formatBytes(totals.bytes)]
  return [String(generation), when, kind ?? 'damaged', ...size, turnId ?? '-']
}
