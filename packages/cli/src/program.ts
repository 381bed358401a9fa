import type { Readable } from 'node:stream'
import { Command } from '@commander-js/extra-typings'
import { verifyBackendCommand } from './commands/backend/verify.ts'
import { completionCommand } from './commands/completion.ts'
import { checkCommand } from './commands/config/check.ts'
import { printCommand } from './commands/config/print.ts'
import { schemaCommand } from './commands/config/schema.ts'
import { demoCommand } from './commands/demo.ts'
import { doctorCommand } from './commands/doctor.ts'
import { catCommand } from './commands/journal/cat.ts'
import { projectCommand } from './commands/journal/project.ts'
import { restoreJournalCommand } from './commands/journal/restore.ts'
import { rewindCommand } from './commands/journal/rewind.ts'
import { sqlCommand } from './commands/journal/sql.ts'
import { statsCommand } from './commands/journal/stats.ts'
import { tailCommand } from './commands/journal/tail.ts'
import { verifyJournalCommand } from './commands/journal/verify.ts'
import { replayCommand } from './commands/replay.ts'
import { runCommand } from './commands/run.ts'
import { diffCommand } from './commands/sessions/diff.ts'
import { exportCommand } from './commands/sessions/export.ts'
import { forkCommand } from './commands/sessions/fork.ts'
import { historyCommand } from './commands/sessions/history.ts'
import { importCommand } from './commands/sessions/import.ts'
import { listCommand } from './commands/sessions/list.ts'
import { purgeCommand } from './commands/sessions/purge.ts'
import { restoreCommand } from './commands/sessions/restore.ts'
import { rmCommand } from './commands/sessions/rm.ts'
import { showCommand } from './commands/sessions/show.ts'
import { verifyCommand } from './commands/sessions/verify.ts'
import { checkStoreCommand } from './commands/store/check.ts'
import { duCommand } from './commands/store/du.ts'
import { gcCommand } from './commands/store/gc.ts'
import { lsCommand } from './commands/store/ls.ts'
import { migrateCommand } from './commands/store/migrate.ts'
import { orphansCommand } from './commands/store/orphans.ts'
import { timelineCommand } from './commands/timeline.ts'
import { Frame } from './frame/frame.ts'
import { addGlobalOptions } from './frame/global-options.ts'
import type { Output } from './output.ts'

const EXIT_CODES = `
Exit codes: 0 done, 1 failed or found something wrong, 2 wrong command line or configuration,
3 nothing was changed (it needs --yes, or a live process has the session), 130 stopped by Ctrl-C.`

const GROUPS: readonly (readonly [string, string, readonly ((parent: Command, frame: Frame) => void)[]])[] = [
  [
    'sessions',
    'Look at sessions, move and remove them.',
    [
      listCommand,
      showCommand,
      verifyCommand,
      historyCommand,
      restoreCommand,
      forkCommand,
      diffCommand,
      exportCommand,
      importCommand,
      purgeCommand,
      rmCommand,
    ],
  ],
  [
    'journal',
    'Read the events of a session, and go back in them.',
    [
      catCommand,
      tailCommand,
      statsCommand,
      verifyJournalCommand,
      projectCommand,
      sqlCommand,
      rewindCommand,
      restoreJournalCommand,
    ],
  ],
  [
    'store',
    'Look at an object store, remove what nothing needs, and move sessions to the other layout.',
    [lsCommand, duCommand, checkStoreCommand, orphansCommand, gcCommand, migrateCommand],
  ],
  ['backend', 'Try a backend out.', [verifyBackendCommand]],
  ['config', 'Check a configuration and see what is in force.', [checkCommand, printCommand, schemaCommand]],
]

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
  for (const [name, description, commands] of GROUPS) {
    const group = program.command(name).description(description)
    for (const add of commands) add(group, frame)
  }
  timelineCommand(program, frame)
  doctorCommand(program, frame)
  completionCommand(program, frame)
  return { program, frame }
}
