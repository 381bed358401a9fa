import { InvalidArgumentError, type Command } from '@commander-js/extra-typings'
import { verifyBackend } from '@nexus/objectstore-contract'
import { EXIT, type ExitCode } from '../../exit-codes.ts'
import type { Context } from '../../frame/context.ts'
import type { Frame } from '../../frame/frame.ts'
import { loadConfiguration } from '../../frame/places.ts'
import { UsageError } from '../../usage-error.ts'

/** Adds `nexus backend verify`. */
export function verifyBackendCommand(parent: Command, frame: Frame): void {
  parent
    .command('verify')
    .summary('hold a backend and its store to the contract')
    .description(
      'Runs the contract suite against the configured object store, under a prefix of its own that is removed afterwards. Exit code 1 when a case fails.',
    )
    .option('--list-probes <count>', 'objects that the listing case stores', countOf, 1200)
    .action(async (options) => await frame.run(async (context) => await check(context, options.listProbes)))
}

function countOf(text: string): number {
  const count = Number(text)
  if (!Number.isSafeInteger(count) || count < 1) throw new InvalidArgumentError('It must be a whole number from 1.')
  return count
}

async function check(context: Context, listProbeCount: number): Promise<ExitCode> {
  const { config } = await loadConfiguration(context.globals)
  const settings = config.core.objectStore
  if (settings === undefined)
    throw new UsageError('no object store is configured: give --config with a file that has one')
  const warn = (_: object, text = ''): void => context.note(text)
  const report = await verifyBackend(settings, {
    listProbeCount,
    signal: context.signal,
    logger: { debug() {}, info() {}, warn, error: warn },
    onCase: ({ name, status }) => context.note(`${status}  ${name}`),
  })
  const { passed, failed, skipped, cases, prefix, leftovers, table } = report
  const ok = failed === 0
  const value = {
    ok,
    passed,
    failed,
    skipped,
    prefix,
    leftovers,
    cases: cases.map(({ name, status }) => ({ name, status })),
  }
  context.result(value, () => table.trimEnd().split('\n'))
  return ok ? EXIT.ok : EXIT.failed
}
