import type { Command } from '@commander-js/extra-typings'
import type { TreeEntry } from '@nexus/inspect'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { fromOption, type FromOptions } from '../../frame/from-option.ts'
import { openForReading } from '../../frame/places.ts'
import { counted, moment } from '../../frame/text.ts'
import { formatBytes } from '../../output.ts'

/** Adds `nexus sessions show`. */
export function showCommand(parent: Command, frame: Frame): void {
  parent
    .command('show')
    .summary('one session: metadata, files, blobs, databases, journal')
    .description('Shows what a session holds, without running it. Changes nothing, and may be used while it runs.')
    .argument('<id>', 'the session')
    .addOption(fromOption())
    .option('--files', 'list every path', false)
    .action(async (id, options) => await frame.run(async (context) => await show(context, id, options)))
}

async function show(context: Context, id: string, options: FromOptions & { files: boolean }): Promise<ExitCode> {
  await using session = await openForReading(await context.places(), id, options.from, context.signal)
  const [metadata, entries, databases] = [await session.metadata(), await session.entries(), await session.databases()]
  const files = entries.filter(({ kind }) => kind === 'file')
  const blobs = files.filter(({ path }) => path.startsWith('blobs/') && path.endsWith('.bin'))
  const lastSeq = await session.lastSeq()
  const value = {
    id,
    source: session.source,
    where: session.where,
    generation: session.generation ?? null,
    metadata: metadata ?? null,
    files: files.length,
    bytes: bytesOf(files),
    blobs: { count: blobs.length, bytes: bytesOf(blobs) },
    databases,
    journal: { last_seq: lastSeq },
    ...(options.files ? { entries: entries.map(entryJson) } : {}),
  }
  context.result(value, () => {
    const times = [metadata?.started_at, metadata?.ended_at].map((time) =>
      time === undefined ? '-' : moment(Date.parse(time)),
    )
    const rows: [string, string][] = [
      ['session', id],
      [
        'read from',
        session.generation === undefined ? session.where : `${session.where}, generation ${session.generation}`,
      ],
      ['status', metadata?.status ?? 'unknown'],
      ['started', times[0] ?? '-'],
      ['ended', times[1] ?? '-'],
      ['turns', String(metadata?.turn_count ?? '-')],
      ['cost', `$${(metadata?.cost_usd ?? 0).toFixed(4)}, ${metadata?.tokens_used ?? 0} tokens`],
      ['files', `${files.length}, ${formatBytes(bytesOf(files))}`],
      ['blobs', `${blobs.length}, ${formatBytes(bytesOf(blobs))}`],
      ['databases', databases.join(', ') || '-'],
      ['journal', counted(lastSeq, 'event')],
    ]
    const facts = context.table([['', ''], ...rows]).slice(1)
    return options.files
      ? [...facts, '', ...context.table([['mode', 'bytes', 'path'], ...entries.map(entryCells)])]
      : facts
  })
  return EXIT.ok
}

function bytesOf(entries: readonly TreeEntry[]): number {
  return entries.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
}

function entryJson({ path, kind, sizeBytes, mode, mtimeNs, sha256, target }: TreeEntry): object {
  return {
    path,
    kind,
    size: sizeBytes,
    mode,
    ...(mtimeNs === undefined ? {} : { mtime_ns: String(mtimeNs) }),
    ...(sha256 === undefined ? {} : { sha256 }),
    ...(target === undefined ? {} : { target }),
  }
}

function entryCells({ path, kind, sizeBytes, mode, target }: TreeEntry): string[] {
  const name = kind === 'directory' ? `${path}/` : kind === 'link' ? `${path} -> ${target ?? ''}` : path
  return [kind === 'link' ? '' : mode.toString(8).padStart(4, '0'), kind === 'file' ? String(sizeBytes) : '', name]
}
