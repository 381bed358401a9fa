import { PassThrough } from 'node:stream'
import type { Command } from '@commander-js/extra-typings'
import { EXIT } from './exit-codes.ts'
import { createProgram } from './program.ts'

const MEANINGS: Readonly<Record<keyof typeof EXIT, string>> = {
  ok: 'done',
  failed: 'it ran and the answer is bad, or it could not be done',
  usage: 'the command line or the configuration is wrong; nothing was touched',
  refused: 'nothing was changed: it needs `--yes`, or a live process has the session',
  stopped: 'stopped by Ctrl-C',
}

/** The page of the command line, made from the program itself. */
export function commandReference(): string {
  const silent = { line() {}, piece() {}, note() {} }
  const { program } = createProgram(silent, new PassThrough())
  const codes = Object.entries(EXIT).map(([name, code]) => `| ${code} | ${MEANINGS[name as keyof typeof EXIT]} |`)
  return [
    '# The command line',
    '',
    '<!-- Written by packages/cli/scripts/write-reference.ts from the program. Do not edit. -->',
    '',
    'Options that every command takes stand before its name or after it:',
    '',
    ...optionTable(program),
    '',
    '| exit code | meaning |',
    '|---|---|',
    ...codes,
    '',
    'With `--json`, standard output holds one JSON value, or one per line where a command gives a stream. An error is',
    '`{"error": {"code", "key", "message"}}`. Remarks and progress go to standard error.',
    ...[...leaves(program, '')].flatMap(([name, command]) => section(name, command)),
    '',
  ].join('\n')
}

function* leaves(command: Command, prefix: string): Generator<[name: string, command: Command]> {
  for (const child of command.commands) {
    const name = `${prefix}${child.name()}`
    if (child.commands.length === 0) yield [name, child as unknown as Command]
    else yield* leaves(child as unknown as Command, `${name} `)
  }
}

function section(name: string, command: Command): string[] {
  const usage = command.registeredArguments.map((argument) => {
    const text = `${argument.name()}${argument.variadic ? '...' : ''}`
    return argument.required ? `<${text}>` : `[${text}]`
  })
  return [
    '',
    `## nexus ${name}`,
    '',
    '```',
    ['nexus', name, ...usage, ...(command.options.length === 0 ? [] : ['[options]'])].join(' '),
    '```',
    '',
    command.description(),
    ...(command.options.length === 0 ? [] : ['', ...optionTable(command)]),
  ]
}

function optionTable(command: Command): string[] {
  const rows = command.options.map((option) => {
    const choices = option.argChoices === undefined ? '' : `: ${option.argChoices.join(' or ')}`
    const isShown = option.defaultValue !== undefined && option.defaultValue !== false && !option.negate
    const value = option.defaultValueDescription ?? String(option.defaultValue)
    return `| \`${option.flags}\` | ${option.description}${choices}${isShown ? ` (default: ${value})` : ''} |`
  })
  return ['| option | |', '|---|---|', ...rows]
}
