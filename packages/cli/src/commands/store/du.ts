import type { Command } from '@commander-js/extra-typings'
import { surveyStore } from '@nexus/inspect'
import { EXIT } from '../../exit-codes.ts'
import type { Frame } from '../../frame/frame.ts'
import { formatBytes } from '../../output.ts'
import { requireStore } from '../../frame/require-store.ts'

/** Adds `nexus store du`. */
export function duCommand(parent: Command, frame: Frame): void {
  parent
    .command('du')
    .summary('how much each session takes')
    .description('Adds up the objects of a store, for each session and for what else is there.')
    .action(async () => {
      await frame.run(async (context) => {
        const { sessions, others } = await surveyStore(await requireStore(context), context.signal)
        const parts = [
          ...sessions.map(({ id, objects, bytes }) => ({ name: `sessions/${id}`, objects, bytes })),
          ...Object.entries(others).map(([name, { objects, bytes }]) => ({ name: `${name}/`, objects, bytes })),
        ]
        const total = { objects: 0, bytes: 0 }
        for (const { objects, bytes } of parts) {
          total.objects += objects
          total.bytes += bytes
        }
        context.result({ parts, total }, () => [
          ...context.table([
            ['what', 'objects', 'size'],
            ...parts.map(({ name, objects, bytes }) => [name, String(objects), formatBytes(bytes)]),
          ]),
          '',
          `${total.objects} objects, ${formatBytes(total.bytes)}`,
        ])
        return EXIT.ok
      })
    })
}
