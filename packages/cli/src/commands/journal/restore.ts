import { join } from 'node:path'
import type { Command } from '@commander-js/extra-typings'
import { listArchives, restoreSession } from '@nexus/engine/journal'
import { inspectSession } from '@nexus/inspect'
import { NexusError } from '@nexus/errors'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import { withConsent } from '../../frame/confirm.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { formatBytes } from '../../output.ts'

/** Adds `nexus journal restore`. */
export function restoreJournalCommand(parent: Command, frame: Frame): void {
  parent
    .command('restore')
    .summary('bring back a journal that a rewind archived')
    .description(
      'Makes an archived journal the journal of a session on this machine again; the present one is archived first. Without a name, lists the archives. Files and databases stay as they are. Shows what would change, and does it with --yes.',
    )
    .argument('<id>', 'the session')
    .argument('[archive]', 'the archive, as the list names it')
    .action(async (id, archive) => await frame.run(async (context) => await bringBack(context, id, archive)))
}

async function bringBack(context: Context, id: string, name: string | undefined): Promise<ExitCode> {
  const { sessionsRoot } = await context.places()
  await using session = await inspectSession(id, { sessionsRoot, from: 'local', signal: context.signal })
  const archives = await listArchives(join(session.where, 'journal'))
  if (name === undefined) {
    const rows = archives.map((archive) => ({
      archive: archive.name,
      last_seq: archive.lastSeq,
      size_bytes: archive.sizeBytes,
    }))
    context.result({ id, where: session.where, archives: rows }, () =>
      rows.length === 0
        ? [`${id} has no archived journal`]
        : context.table([
            ['archive', 'last seq', 'size'],
            ...rows.map((row) => [row.archive, String(row.last_seq), formatBytes(row.size_bytes)]),
          ]),
    )
    return EXIT.ok
  }
  const chosen = archives.find((archive) => archive.name === name)
  if (chosen === undefined) {
    const known = archives.map((archive) => archive.name).join(', ') || 'none'
    const message = `session ${id} has no archive ${name}: those there are: ${known}`
    throw new NexusError('NOT_FOUND', message, { op: 'cli.restore', key: name })
  }
  const lastSeq = await session.lastSeq()
  const value = { id, where: session.where, archive: name, last_seq: lastSeq, to_seq: chosen.lastSeq }
  const lines = [
    `the journal of ${id}, up to seq ${lastSeq}, would become that of ${name}, up to seq ${chosen.lastSeq}`,
  ]
  return await withConsent(context, { value, lines }, async () => {
    const { lastSeq: endsAt, archive } = await restoreSession(join(sessionsRoot, id), name)
    return `the journal ends at seq ${endsAt}; what it was is journal/archive/${archive}`
  })
}
