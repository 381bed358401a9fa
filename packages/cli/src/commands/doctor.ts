import type { Command } from '@commander-js/extra-typings'
import { examineMachine } from '@nexus/inspect'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import type { Context } from '../frame/context.ts'
import type { Frame } from '../frame/frame.ts'

const MARKS = { ok: 'green', warning: 'yellow', failed: 'red' } as const

/** Adds `nexus doctor`. */
export function doctorCommand(program: Command, frame: Frame): void {
  program
    .command('doctor')
    .summary('whether this machine and its store have what sessions need')
    .description(
      'Looks at Node.js, the data root, what killed runs left, locks, and the object store. Changes nothing. Exit code 1 when something failed.',
    )
    .action(async () => await frame.run(examine))
}

async function examine(context: Context): Promise<ExitCode> {
  const { sessionsRoot, openStore } = await context.places()
  const findings = await examineMachine(sessionsRoot, openStore, context.signal)
  const ok = findings.every(({ status }) => status !== 'failed')
  context.result({ ok, findings }, () => {
    const [, ...lines] = context.table([
      ['', '', ''],
      ...findings.map(({ what, status, detail }) => [status, what, detail]),
    ])
    return lines.map((line, at) => context.style(MARKS[findings[at]?.status ?? 'ok'], line))
  })
  return ok ? EXIT.ok : EXIT.failed
}
