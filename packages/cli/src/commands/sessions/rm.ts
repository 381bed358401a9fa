import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from '@commander-js/extra-typings'
import { NexusError } from '@nexus/errors'
import { hasChain } from '@nexus/durability/tools'
import { removeSession, sessionHistory } from '@nexus/engine/history'
import { inspectSession, removeLocalSession, removeStoredSession, storedObjects } from '@nexus/inspect'
import type { ExitCode } from '../../exit-codes.ts'
import { withConsent } from '../../frame/confirm.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { withSessionLock } from '../../frame/session-lock.ts'
import { counted } from '../../frame/text.ts'
import { formatBytes } from '../../output.ts'
import { versionedStore } from './versioned-session.ts'

/** Adds `nexus sessions rm`. */
export function rmCommand(parent: Command, frame: Frame): void {
  parent
    .command('rm')
    .summary('remove a session from this machine, or from the object store')
    .description(
      'Removes a session from this machine; with --remote from the object store instead, and the copy here stays. Shows what would go, and does it with --yes. A session that a live process holds is refused.',
    )
    .argument('<id>', 'the session')
    .option('--remote', 'remove it from the object store, not from this machine', false)
    .option('--force', 'with --remote: although its owner looks live', false)
    .action(async (id, options) => {
      await frame.run(async (context) =>
        options.remote ? await removeRemote(context, id, options.force) : await removeHere(context, id),
      )
    })
}

async function removeHere(context: Context, id: string): Promise<ExitCode> {
  const { sessionsRoot } = await context.places()
  await using session = await inspectSession(id, { sessionsRoot, from: 'local', signal: context.signal })
  const files = (await session.entries()).filter(({ kind }) => kind === 'file')
  const bytes = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  const dir = join(sessionsRoot, id)
  const value = { id, place: 'local', where: dir, objects: files.length, bytes }
  const lines = [`removes ${dir}: ${counted(files.length, 'file')}, ${formatBytes(bytes)}`]
  return await withConsent(context, { value, lines }, async () => {
    await removeLocalSession(sessionsRoot, id)
    return `session ${id} is gone from this machine`
  })
}

async function removeRemote(context: Context, id: string, force: boolean): Promise<ExitCode> {
  const { sessionsRoot, openStore } = await context.places()
  const store = await openStore()
  if (store === undefined) {
    throw new NexusError('INVALID_ARGUMENT', 'no object store is configured: name a configuration that has one', {
      op: 'cli.rm',
    })
  }
  if (await hasChain(store, id, context.signal)) return await removeChain(context, id, force)
  const objects = await storedObjects(store, id, context.signal)
  if (objects.length === 0)
    throw new NexusError('NOT_FOUND', `the store has nothing of session ${id}`, { op: 'cli.rm', key: id })
  const bytes = objects.reduce((sum, { size }) => sum + size, 0)
  const isHere = existsSync(join(sessionsRoot, id))
  const value = { id, place: 'store', where: `sessions/${id}`, objects: objects.length, bytes }
  const lines = [
    `removes ${counted(objects.length, 'object')} of session ${id} from the store (${store.name}), ${formatBytes(bytes)}`,
    isHere ? 'the copy on this machine stays' : 'there is no copy on this machine',
  ]
  return await withConsent(context, { value, lines }, async () => {
    const { signal } = context
    await removeStoredSession(store, id, { force, signal })
    // The chain that it had before it was moved to the mirror layout.
    const hadChain = (await store.listNames('sessions', { signal })).includes(`${id}.v`)
    if (hadChain) await removeSession(store, id, { signal, force: true })
    return `session ${id} is gone from the store`
  })
}

/** The last number stays, so that no host that stood still brings the session back. */
async function removeChain(context: Context, id: string, force: boolean): Promise<ExitCode> {
  const { store, options } = await versionedStore(context)
  const { sessionsRoot } = await context.places()
  // Says so where it is removed already.
  await sessionHistory(store, id, { ...options, limit: 1 })
  const where = `sessions/${id}.v`
  const { signal } = context
  // Of a session that was moved here from the mirror layout, its files are there as well.
  const mirrored = await storedObjects(store, id, signal)
  const objects = [...(await store.list(where, { signal })), ...mirrored]
  const bytes = objects.reduce((sum, { size }) => sum + size, 0)
  const value = { id, place: 'store', where, objects: objects.length, bytes }
  const lines = [
    `removes session ${id} from the store (${store.name}): ${counted(objects.length, 'object')}, ${formatBytes(bytes)}`,
    'a few bytes for each commit stay, which say that it was removed; nexus store gc --forget-removed takes them away',
    existsSync(join(sessionsRoot, id)) ? 'the copy on this machine stays' : 'there is no copy on this machine',
  ]
  return await withConsent(context, { value, lines }, async () => {
    await withSessionLock(context, id, { force, what: 'remove' }, () => removeSession(store, id, { ...options, force }))
    for (const { key } of mirrored) await store.delete(key, { signal })
    await store.flush({ signal })
    return `session ${id} is gone from the store`
  })
}
