import type { Command } from '@commander-js/extra-typings'
import { surveyStore } from '@nexus/inspect'
import { EXIT } from '../../exit-codes.ts'
import type { Frame } from '../../frame/frame.ts'
import { counted } from '../../frame/text.ts'
import { requireStore } from '../../frame/require-store.ts'

/** Adds `nexus store check`. */
export function checkStoreCommand(parent: Command, frame: Frame): void {
  parent
    .command('check')
    .summary('whether every commit has its objects')
    .description(
      'Reads the manifest of every session and looks whether the objects that it names are there, in their size. Reads no object: for digests see sessions verify. Sessions of the versioned layout are counted and not checked. Exit code 1 when anything is wrong.',
    )
    .action(async () => {
      await frame.run(async (context) => {
        const { sessions } = await surveyStore(await requireStore(context), context.signal)
        const bad = sessions.filter(({ problems }) => problems.length > 0)
        const unchecked = sessions.filter(({ layout }) => layout === 'versioned').length
        const checked = sessions.length - unchecked
        const value = {
          ok: bad.length === 0,
          sessions: sessions.map(({ id, layout, generation, problems }) => ({
            id,
            layout,
            checked: layout === 'mirror',
            generation: generation ?? null,
            problems,
          })),
        }
        const rows = bad.flatMap(({ id, problems }) => problems.map((problem) => [id, problem]))
        context.result(value, () => [
          ...(rows.length === 0 ? [] : context.table([['session', 'problem'], ...rows])),
          bad.length === 0
            ? context.style('green', `${counted(checked, 'session')} checked, nothing is missing`)
            : context.style('red', `${bad.length} of ${counted(checked, 'session')} damaged`),
          ...(unchecked === 0 ? [] : [`${counted(unchecked, 'versioned session')} not checked`]),
        ])
        return bad.length === 0 ? EXIT.ok : EXIT.failed
      })
    })
}
