import type { Command } from '@commander-js/extra-typings'
import { redactSecrets } from '@nexus/objectstore'
import { EXIT } from '../../exit-codes.ts'
import type { Frame } from '../../frame/frame.ts'
import { loadConfiguration } from '../../frame/places.ts'
import { plain } from '../../frame/text.ts'

/** Adds `nexus config print`. */
export function printCommand(parent: Command, frame: Frame): void {
  parent
    .command('print')
    .summary('the configuration in force, defaults included')
    .description(
      'Prints the configuration as it is in force: every default applied, paths absolute, durations in milliseconds, sizes in bytes. Blocks of plugins are left out, since they may hold secrets.',
    )
    .action(async () => {
      await frame.run(async (context) => {
        const { config } = await loadConfiguration(context.globals)
        const { plugins: _plugins, ...shown } = config as typeof config & { plugins?: unknown }
        const rows = [...leaves(shown)]
        context.result(Object.fromEntries(rows), () =>
          rows.map(([name, value]) => `${name} = ${plain(JSON.stringify(value))}`),
        )
        return EXIT.ok
      })
    })
}

/** Values by their dotted names; texts with whatever looks like a secret hidden. */
function* leaves(value: object, prefix = ''): Generator<[name: string, value: unknown]> {
  for (const [name, each] of Object.entries(value)) {
    const path = `${prefix}${name}`
    if (path.endsWith('.options')) yield [path, '(of the driver, not shown)']
    else if (typeof each === 'object' && each !== null && !Array.isArray(each))
      yield* leaves(each as object, `${path}.`)
    else if (each !== undefined) yield [path, typeof each === 'string' ? redactSecrets(each) : (each as unknown)]
  }
}
