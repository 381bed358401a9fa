import type { Command } from '@commander-js/extra-typings'
import { configJsonSchema } from '@nexus/engine/config'
import { EXIT } from '../../exit-codes.ts'
import type { Frame } from '../../frame/frame.ts'

/** Adds `nexus config schema`. */
export function schemaCommand(parent: Command, frame: Frame): void {
  parent
    .command('schema')
    .summary('the JSON Schema of the configuration, for editors')
    .description('Prints the JSON Schema (2020-12) of the configuration file.')
    .action(async () => {
      await frame.run(async ({ output }) => {
        output.line(JSON.stringify(configJsonSchema(), undefined, 2))
        return EXIT.ok
      })
    })
}
