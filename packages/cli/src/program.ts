import type { Readable } from 'node:stream'
import { Command } from '@commander-js/extra-typings'
import { demoCommand } from './commands/demo.ts'
import { replayCommand } from './commands/replay.ts'
import { runCommand } from './commands/run.ts'
import { listCommand } from './commands/sessions/list.ts'
import { showCommand } from './commands/sessions/show.ts'
import { Frame } from './frame/frame.ts'
import { addGlobalOptions } from './frame/global-options.ts'
import type { Output } from './output.ts'

const EXIT_CODES = `
Exit codes: 0 done, 1 failed or found something wrong, 2 wrong command line or configuration,
3 nothing was changed (it needs --yes, or a live process has the session), 130 stopped by Ctrl-C.`

/** The whole command line, ready to parse. */
export function createProgram(
  output: Output,
  input: Readable & { isTTY?: boolean },
): { program: Command; frame: Frame } {
  const program = new Command('nexus')
    .description('Agent sessions that survive their host.')
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => output.line(text.trimEnd()),
      writeErr: (text) => output.note(text.trimEnd()),
      // Help that was not asked for, and what is wrong, go to standard error.
      outputError: (text, write) => write(text.replace(/^error: /, 'nexus: ')),
    })
    .showHelpAfterError('(nexus --help shows the commands, nexus <command> --help their options)')
    .addHelpText('after', EXIT_CODES)
  addGlobalOptions(program)
  const frame = new Frame(program, output, input)
  demoCommand(program, frame)
  runCommand(program, frame)
  replayCommand(program, frame)
  const sessions = program.command('sessions').description('Look at sessions, move and remove them.')
  for (const add of [listCommand, showCommand]) add(sessions, frame)
  return { program, frame }
}
