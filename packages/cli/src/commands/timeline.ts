import type { Command } from '@commander-js/extra-typings'
import { timeline, type TimelineTurn } from '@nexus/inspect'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import type { Context } from '../frame/context.ts'
import type { Frame } from '../frame/frame.ts'
import { fromOption, type FromOptions } from '../frame/from-option.ts'
import { openForReading } from '../frame/places.ts'
import { exact, plain } from '../frame/text.ts'

/** Adds `nexus timeline`. */
export function timelineCommand(program: Command, frame: Frame): void {
  program
    .command('timeline')
    .summary('the turns of a session: tool calls, errors, files')
    .description(
      'Prints each turn of a session with its tool calls, how long they took, errors, and the files it changed.',
    )
    .argument('<id>', 'the session')
    .addOption(fromOption())
    .action(async (id, options) => await frame.run(async (context) => await print(context, id, options)))
}

async function print(context: Context, id: string, { from }: FromOptions): Promise<ExitCode> {
  await using session = await openForReading(await context.places(), id, from, context.signal)
  context.note(`read from ${session.where}`)
  for await (const turn of timeline(await session.journal({ signal: context.signal, onSegmentDamage: 'continue' }))) {
    context.item(turnJson(turn), () => turnLines(turn).join('\n'))
  }
  return EXIT.ok
}

function turnJson({ turnId, firstSeq, lastSeq, startedAt, durationMs, error, calls, files }: TimelineTurn): object {
  return {
    turn_id: turnId,
    first_seq: firstSeq,
    last_seq: lastSeq,
    started_at: startedAt,
    duration_ms: durationMs ?? null,
    ...(error === undefined ? {} : { error }),
    calls: calls.map((call) => ({
      name: call.name,
      duration_ms: call.durationMs ?? null,
      ...(call.error === undefined ? {} : { error: call.error }),
    })),
    files,
  }
}

function turnLines({ turnId, startedAt, durationMs, error, calls, files }: TimelineTurn): string[] {
  const took = durationMs === undefined ? 'cut off' : `${durationMs} ms`
  return [
    `${exact(Date.parse(startedAt))}  ${plain(turnId)}  ${took}${error === undefined ? '' : `  failed: ${plain(error)}`}`,
    ...calls.map((call) => {
      const end = call.durationMs === undefined ? 'no result' : `${call.durationMs} ms`
      return `  ${plain(call.name)}  ${end}${call.error === undefined ? '' : `  failed: ${plain(call.error)}`}`
    }),
    ...files.map((path) => `  ${plain(path)}`),
  ]
}
