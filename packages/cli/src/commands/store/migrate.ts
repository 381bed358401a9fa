import { InvalidArgumentError, type Command } from '@commander-js/extra-typings'
import { migrateSession } from '@nexus/engine/history'
import { hasChain } from '@nexus/durability/tools'
import type { ExitCode } from '../../exit-codes.ts'
import { withConsent } from '../../frame/confirm.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { requireStore } from '../../frame/require-store.ts'
import { withSessionLock } from '../../frame/session-lock.ts'

/** Adds `nexus store migrate`. */
export function migrateCommand(parent: Command, frame: Frame): void {
  parent
    .command('migrate')
    .summary('move a session to the other layout')
    .description(
      'Moves a session in the object store to the versioned or to the mirror layout. All of it is read back and compared before the last act. Cut anywhere, the session is where it was, and doing it again goes on. Files of the mirror layout stay in the bucket. Does it with --yes. A session whose owner looks live is refused.',
    )
    .argument('<id>', 'the session')
    .requiredOption('--to <layout>', 'versioned or mirror', layoutOf)
    .option('--force', 'although its owner looks live', false)
    .action(async (id, options) => await frame.run(async (context) => await migrate(context, id, options)))
}

type LayoutName = 'versioned' | 'mirror'

function layoutOf(text: string): LayoutName {
  if (text === 'versioned' || text === 'mirror') return text
  throw new InvalidArgumentError('It must be versioned or mirror.')
}

async function migrate(
  context: Context,
  id: string,
  { to, force }: { to: LayoutName; force: boolean },
): Promise<ExitCode> {
  const store = await requireStore(context)
  const { signal } = context
  const from = (await hasChain(store, id, signal)) ? 'versioned' : 'mirror'
  const value = { id, from, to }
  const lines = [
    from === to
      ? `session ${id} seems to be in the ${to} layout already: looks whether that was finished`
      : `moves session ${id} from the ${from} to the ${to} layout; a host that has it open loses it`,
  ]
  const { objectStore } = (await context.places()).loaded.config.core
  return await withConsent(context, { value, lines }, async () => {
    const { generation, wasThere } = await withSessionLock(context, id, { force, what: 'migrate' }, () =>
      migrateSession(store, id, { signal, force, to, ttlMs: objectStore?.ttlMs }),
    )
    return `session ${id} ${wasThere ? 'was' : 'is'} in the ${to} layout: generation ${generation}`
  })
}
