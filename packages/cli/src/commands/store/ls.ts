import type { Command } from '@commander-js/extra-typings'
import { EXIT } from '../../exit-codes.ts'
import type { Frame } from '../../frame/frame.ts'
import { exact } from '../../frame/text.ts'
import { requireStore } from '../../frame/require-store.ts'

/** Adds `nexus store ls`. */
export function lsCommand(parent: Command, frame: Frame): void {
  parent
    .command('ls')
    .summary('list objects')
    .description('Lists the objects below a prefix, by key. A prefix matches whole segments, such as sessions/<id>.')
    .argument('[prefix]', 'below which prefix', '')
    .action(async (prefix) => {
      await frame.run(async (context) => {
        const store = await requireStore(context)
        const objects = await store.list(prefix.replace(/\/+$/, ''), { signal: context.signal })
        const sorted = objects.toSorted((a, b) => (a.key < b.key ? -1 : 1))
        if (!context.globals.json) {
          const rows = sorted.map(({ key, size, modTime }) => [
            String(size),
            modTime === undefined ? '-' : exact(modTime.getTime()),
            key,
          ])
          for (const line of context.table([['bytes', 'modified', 'key'], ...rows])) context.output.line(line)
          return EXIT.ok
        }
        for (const { key, size, modTime } of sorted) {
          context.item(
            { key, size, ...(modTime === undefined ? {} : { modified_at: modTime.toISOString() }) },
            () => key,
          )
        }
        return EXIT.ok
      })
    })
}
