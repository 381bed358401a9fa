import type { Command } from '@commander-js/extra-typings'
import { surveyStore } from '@nexus/inspect'
import { EXIT } from '../../exit-codes.ts'
import type { Frame } from '../../frame/frame.ts'
import { counted } from '../../frame/text.ts'
import { formatBytes } from '../../output.ts'
import { requireStore } from '../../frame/require-store.ts'

/** Adds `nexus store orphans`. */
export function orphansCommand(parent: Command, frame: Frame): void {
  parent
    .command('orphans')
    .summary('objects that no commit names')
    .description(
      'Lists the objects of sessions that no commit names: left by deleted files and interrupted commits. Those that a resume may still take are marked. A session that runs may be about to name some.',
    )
    .action(async () => {
      await frame.run(async (context) => {
        const { sessions } = await surveyStore(await requireStore(context), context.signal)
        const orphans = sessions.flatMap((session) => session.orphans)
        const bytes = orphans.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
        const list = orphans.map(({ key, sizeBytes, mayMend }) => ({ key, size: sizeBytes, may_mend: mayMend }))
        context.result({ orphans: list, bytes }, () => [
          ...(list.length === 0
            ? []
            : context.table([
                ['bytes', 'may mend', 'key'],
                ...list.map(({ key, size, may_mend: mayMend }) => [String(size), mayMend ? 'yes' : '', key]),
              ])),
          `${counted(list.length, 'orphan')}, ${formatBytes(bytes)}`,
        ])
        return EXIT.ok
      })
    })
}
