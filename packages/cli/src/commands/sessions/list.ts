import type { Command } from '@commander-js/extra-typings'
import { listSessions, type ListedSession } from '@nexus/inspect'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { ago, counted, exact } from '../../frame/text.ts'

/** Adds `nexus sessions list`. */
export function listCommand(parent: Command, frame: Frame): void {
  parent
    .command('list')
    .summary('the sessions on this machine and in the object store')
    .description(
      'Lists the sessions on this machine and, when one is configured, in the object store. Changes nothing.',
    )
    .action(async () => await frame.run(list))
}

/** A session as `--json` prints it, one per line. */
interface SessionRow {
  id: string
  /** `null` where there is none. */
  local: {
    dir: string
    lock: 'free' | 'live' | 'dead'
    last_used_at: string
    status?: string
    turn_count?: number
    problem?: string
  } | null
  stored: { layout: 'mirror' | 'versioned'; generation?: number; problem?: string } | null
}

async function list(context: Context): Promise<ExitCode> {
  const { sessionsRoot, openStore } = await context.places()
  const store = await openStore()
  const places = { sessionsRoot, signal: context.signal, ...(store === undefined ? {} : { store }) }
  const sessions = await listSessions(places)
  if (context.globals.json) {
    for (const session of sessions) context.item(rowOf(session), () => '')
    return EXIT.ok
  }
  const where = store === undefined ? sessionsRoot : `${sessionsRoot} and the store (${store.name})`
  if (sessions.length === 0) context.note(`no sessions in ${where}`)
  else {
    const names = ['session', 'here', 'stored', 'turns', 'last used']
    for (const line of context.table([names, ...sessions.map(cellsOf)])) context.output.line(line)
    context.note(`${counted(sessions.length, 'session')} in ${where}`)
  }
  return EXIT.ok
}

function rowOf({ id, local, stored }: ListedSession): SessionRow {
  return {
    id,
    local:
      local === undefined
        ? null
        : {
            dir: local.dir,
            lock: local.lock.state,
            last_used_at: new Date(local.lastUsedMs).toISOString(),
            ...(local.metadata?.status === undefined ? {} : { status: local.metadata.status }),
            ...(local.metadata?.turn_count === undefined ? {} : { turn_count: local.metadata.turn_count }),
            ...(local.problem === undefined ? {} : { problem: local.problem }),
          },
    stored:
      stored === undefined
        ? null
        : {
            layout: stored.layout,
            ...(stored.head === undefined ? {} : { generation: stored.head.generation }),
            ...(stored.problem === undefined ? {} : { problem: stored.problem }),
          },
  }
}

function cellsOf({ id, local, stored }: ListedSession): string[] {
  return [
    id,
    local === undefined ? '-' : hereOf(local),
    stored === undefined ? '-' : storedOf(stored),
    String(local?.metadata?.turn_count ?? '-'),
    local === undefined ? '-' : `${exact(local.lastUsedMs).replace(/:\d\dZ$/, 'Z')} ${ago(local.lastUsedMs)}`,
  ]
}

function storedOf({ layout, head }: NonNullable<ListedSession['stored']>): string {
  if (layout === 'versioned') return layout
  return head === undefined ? 'damaged' : `gen ${head.generation}`
}

function hereOf({ lock, metadata, problem }: NonNullable<ListedSession['local']>): string {
  if (lock.state === 'live') return 'running'
  if (problem !== undefined) return 'damaged'
  return lock.state === 'dead' || metadata?.status === 'active' ? 'cut off' : 'ended'
}
