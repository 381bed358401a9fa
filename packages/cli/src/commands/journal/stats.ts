import type { Command } from '@commander-js/extra-typings'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { fromOption, type FromOptions } from '../../frame/from-option.ts'
import { openForReading } from '../../frame/places.ts'
import { moment } from '../../frame/text.ts'

/** Adds `nexus journal stats`. */
export function statsCommand(parent: Command, frame: Frame): void {
  parent
    .command('stats')
    .summary('how many events of which type, and when')
    .description('Counts the events of a session by type.')
    .argument('<id>', 'the session')
    .addOption(fromOption())
    .action(async (id, options) => await frame.run(async (context) => await stats(context, id, options)))
}

async function stats(context: Context, id: string, { from }: FromOptions): Promise<ExitCode> {
  await using session = await openForReading(await context.places(), id, from, context.signal)
  const types = new Map<string, number>()
  let [events, firstTs, lastTs, lastSeq] = [0, '', '', 0]
  for await (const { type, ts, seq } of await session.journal({
    signal: context.signal,
    onSegmentDamage: 'continue',
  })) {
    types.set(type, (types.get(type) ?? 0) + 1)
    if (events === 0) firstTs = ts
    events += 1
    lastTs = ts
    lastSeq = seq
  }
  const byCount = [...types].toSorted((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))
  const value = {
    id,
    source: session.source,
    where: session.where,
    events,
    last_seq: lastSeq,
    first_at: firstTs,
    last_at: lastTs,
    types: Object.fromEntries(byCount),
  }
  context.result(value, () => [
    ...context.table([['type', 'events'], ...byCount.map(([type, count]) => [type, String(count)])]),
    '',
    `${events} events up to seq ${lastSeq}, read from ${session.where}`,
    ...(events === 0 ? [] : [`first ${moment(Date.parse(firstTs))}, last ${moment(Date.parse(lastTs))}`]),
  ])
  return EXIT.ok
}
