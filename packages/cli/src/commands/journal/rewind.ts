import { join } from 'node:path'
import type { Command } from '@commander-js/extra-typings'
import { inspectSession } from '@nexus/inspect'
import { rewindSession } from '@nexus/engine/journal'
import type { ExitCode } from '../../exit-codes.ts'
import { withConsent } from '../../frame/confirm.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { counted } from '../../frame/text.ts'
import { seqOf } from './options.ts'

/** Adds `nexus journal rewind`. */
export function rewindCommand(parent: Command, frame: Frame): void {
  parent
    .command('rewind')
    .summary('make the journal of a session here end earlier')
    .description(
      'Makes the journal of a session on this machine end at a seq. What it was before is kept below journal/archive/. Files and databases stay as they are. Shows what would go, and does it with --yes.',
    )
    .argument('<id>', 'the session')
    .argument('<seq>', 'the last seq to keep; 0 keeps none', seqOf)
    .action(async (id, seq) => await frame.run(async (context) => await goBack(context, id, seq)))
}

async function goBack(context: Context, id: string, seq: number): Promise<ExitCode> {
  const { sessionsRoot } = await context.places()
  await using session = await inspectSession(id, { sessionsRoot, from: 'local', signal: context.signal })
  const lastSeq = await session.lastSeq()
  const dropped = Math.max(0, lastSeq - seq)
  const value = { id, where: session.where, last_seq: lastSeq, to_seq: seq, events_dropped: dropped }
  const lines = [
    `${id} has events up to seq ${lastSeq}: ${counted(dropped, 'event')} after seq ${seq} would be archived`,
  ]
  return await withConsent(context, { value, lines }, async () => {
    const { archive } = await rewindSession(join(sessionsRoot, id), seq)
    return `the journal ends at seq ${seq}; what it was is journal/archive/${archive}`
  })
}
