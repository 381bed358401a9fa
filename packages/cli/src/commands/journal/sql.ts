import type { Command } from '@commander-js/extra-typings'
import { indexTimeline, TIMELINE_SCHEMA, type SqlValue, type TimelineIndex } from '@nexus/inspect'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { fromOption, type FromOptions } from '../../frame/from-option.ts'
import { openForReading } from '../../frame/places.ts'

const MOST_SHOWN = 1000

/** Adds `nexus journal sql`. */
export function sqlCommand(parent: Command, frame: Frame): void {
  parent
    .command('sql')
    .summary('ask the turns of a session by SQL')
    .description(
      'Answers a query over what nexus timeline shows, in the tables turns, calls, files and errors. The index is a temporary SQLite database that is built anew for each query, so it is never stale; only statements that read are answered. With --json, a row per line. --schema shows the tables.',
    )
    .argument('<id>', 'the session')
    .argument('[query]', 'one statement, such as "SELECT name, count(*) FROM calls GROUP BY name"')
    .addOption(fromOption())
    .option('--schema', 'show the tables and their columns', false)
    .action(async (id, query, options) => await frame.run(async (context) => await ask(context, id, query, options)))
}

async function ask(
  context: Context,
  id: string,
  query: string | undefined,
  { from, schema }: FromOptions & { schema: boolean },
): Promise<ExitCode> {
  if (schema || query === undefined) {
    context.result({ schema: TIMELINE_SCHEMA.trim() }, () => TIMELINE_SCHEMA.trim().split('\n'))
    return EXIT.ok
  }
  using index = await indexed(context, id, from)
  // SQLite does not let go of the thread, and there is nothing to take back.
  context.endAtInterrupt()
  const { columns, rows } = index.query(query)
  if (!context.globals.json) {
    showRows(context, columns, rows)
    return EXIT.ok
  }
  for (const row of rows) {
    context.item(Object.fromEntries(columns.map((name, at) => [name, row[at] ?? null])), () => '')
  }
  return EXIT.ok
}

async function indexed(context: Context, id: string, from: FromOptions['from']): Promise<TimelineIndex> {
  await using session = await openForReading(await context.places(), id, from, context.signal)
  context.note(`read from ${session.where}`)
  const events = await session.journal({ signal: context.signal, onSegmentDamage: 'continue' })
  return await indexTimeline(events, { signal: context.signal })
}

function showRows(context: Context, columns: string[], rows: Iterable<SqlValue[]>): void {
  const shown: string[][] = [columns]
  for (const row of rows) {
    if (shown.length > MOST_SHOWN) {
      context.note(`only the first ${MOST_SHOWN} rows are shown: --json gives all of them`)
      break
    }
    shown.push(row.map((value) => (value === null ? '-' : String(value))))
  }
  for (const line of context.table(shown)) context.output.line(line)
}
