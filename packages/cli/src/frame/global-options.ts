import { Option, type Command } from '@commander-js/extra-typings'

/** What every command takes, before its name or after it. */
export interface GlobalOptions {
  config?: string
  import: string[]
  root?: string
  json: boolean
  color: boolean
  quiet: boolean
  verbose: boolean
  yes: boolean
}

/** Gives the program the options that every command takes. One value each: a list would swallow what follows it. */
export function addGlobalOptions(program: Command): void {
  program
    .option('-c, --config <file>', 'the configuration: where sessions are, and their object store')
    .addOption(
      new Option('--import <module>', 'load a module first, such as a backend; may be repeated (also NEXUS_IMPORT)')
        .default([] as string[], 'none')
        .argParser((module: string, all: string[]) => [...all, module]),
    )
    .option('--root <dir>', 'the data root instead of the configured one: sessions are in <dir>/sessions')
    .option('--json', 'print JSON, and nothing else, on standard output', false)
    .option('--no-color', 'no colours (also NO_COLOR)')
    .option('-q, --quiet', 'no progress and no remarks', false)
    .option('--verbose', 'show what caused an error', false)
    .option('-y, --yes', 'do it: without this, what destroys something only shows what it would do', false)
}

/** The modules to load: those of the environment, separated by commas, then those of the command line. */
export function modulesOf(options: { readonly import: readonly string[] }, env: NodeJS.ProcessEnv): string[] {
  const named = (env['NEXUS_IMPORT'] ?? '').split(',').map((name) => name.trim())
  return [...named.filter((name) => name !== ''), ...options.import]
}
