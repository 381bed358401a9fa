import type { Command } from '@commander-js/extra-typings'
import { EXIT } from '../../exit-codes.ts'
import type { Frame } from '../../frame/frame.ts'
import { loadConfiguration } from '../../frame/places.ts'
import { UsageError } from '../../usage-error.ts'

/** Adds `nexus config check`. */
export function checkCommand(parent: Command, frame: Frame): void {
  parent
    .command('check')
    .summary('validate a configuration')
    .description(
      'Reads a configuration as a boot does and tells every problem of it at once. Exit code 2 when there is any.',
    )
    .argument('[file]', 'the configuration (default: that of --config)')
    .action(async (file, _options) => {
      await frame.run(async (context) => {
        const config = file ?? context.globals.config
        if (config === undefined) throw new UsageError('config check needs a file')
        const { path, warnings } = await loadConfiguration({ ...context.globals, config })
        context.result({ path: path ?? null, ok: true, warnings }, () => [...warnings, `${path ?? config} is in order`])
        return EXIT.ok
      })
    })
}
