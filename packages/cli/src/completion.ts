import type { Command } from '@commander-js/extra-typings'

/** Shells that there is a script for. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const

/** One of {@link SHELLS}. */
export type Shell = (typeof SHELLS)[number]

interface Place {
  /** The commands that lead there, with spaces between them; '' for the program. */
  readonly path: string
  readonly commands: readonly (readonly [name: string, summary: string])[]
  readonly options: readonly string[]
}

/** The script that a shell reads to complete commands and options. Made from the program, so it knows each of them. */
export function completionScript(program: Command, shell: Shell): string {
  const places = [...placesOf(program, '')]
  if (shell === 'fish') return fishScript(places, valueOptions(program))
  return shell === 'bash' ? bashScript(places, valueOptions(program)) : zshScript(places, valueOptions(program))
}

function* placesOf(command: Command, path: string, inherited: readonly string[] = []): Generator<Place> {
  const own = [...inherited, ...command.options.flatMap(({ long }) => long ?? [])]
  const commands = command.commands.map((child) => [child.name(), child.summary() || child.description()] as const)
  yield { path, commands, options: [...own, '--help'] }
  for (const child of command.commands) {
    yield* placesOf(child as unknown as Command, `${path} ${child.name()}`.trim(), own)
  }
}

/** Options whose next word is their value, so that it is not taken for a command. */
function valueOptions(program: Command): string[] {
  return program.options.filter(({ required }) => required).flatMap(({ long, short }) => [long, short].filter(isText))
}

function isText(text: string | undefined): text is string {
  return text !== undefined
}

/** Walks the words before the cursor to the command they name; both shells read the same. */
function posixWalk(values: readonly string[], paths: readonly string[]): string[] {
  return [
    `      ${values.join('|')}) skip=1 ;;`,
    '      -*) ;;',
    '      *)',
    '        case "${at:+$at }$word" in',
    `          ${paths.map((path) => `'${path}'`).join('|')}) at="\${at:+$at }$word" ;;`,
    '        esac ;;',
  ]
}

function cases({ path, commands, options }: Place): string {
  const words = [...commands.map(([name]) => name), ...options].join(' ')
  return `    '${path}') words='${words}' ;;`
}

function posixBody(places: readonly Place[], values: readonly string[]): string[] {
  const paths = places.map(({ path }) => path).filter((path) => path !== '')
  return [
    '    [ -n "$skip" ] && { skip=; continue; }',
    '    case "$word" in',
    ...posixWalk(values, paths),
    '    esac',
    '  done',
    '  case "$at" in',
    ...places.map(cases),
    '  esac',
  ]
}

function bashScript(places: readonly Place[], values: readonly string[]): string {
  return [
    '# Completion of nexus for bash: source <(nexus completion bash)',
    '_nexus() {',
    '  local at= skip= word words=',
    '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
    ...posixBody(places, values),
    '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
    '}',
    'complete -o default -F _nexus nexus',
  ].join('\n')
}

function zshScript(places: readonly Place[], values: readonly string[]): string {
  const body = posixBody(places, values).map((line) => line.replaceAll('words=', 'candidates='))
  return [
    '#compdef nexus',
    '# Completion of nexus for zsh: source <(nexus completion zsh), after compinit',
    '_nexus() {',
    "  local at='' skip='' word candidates=''",
    '  for word in "${(@)words[2,CURRENT-1]}"; do',
    ...body,
    '  compadd -- ${=candidates}',
    '  [[ ${words[CURRENT]} == -* ]] || _files',
    '}',
    'compdef _nexus nexus',
  ].join('\n')
}

function fishScript(places: readonly Place[], values: readonly string[]): string {
  const paths = places.map(({ path }) => path).filter((path) => path !== '')
  return [
    '# Completion of nexus for fish: nexus completion fish | source',
    'function __nexus_at',
    '  set -l at',
    '  set -l skip 0',
    '  for word in (commandline -opc)[2..-1]',
    '    if test $skip = 1',
    '      set skip 0',
    '      continue',
    '    end',
    '    switch $word',
    `      case ${values.join(' ')}`,
    '        set skip 1',
    "      case '-*'",
    "      case '*'",
    `        if contains -- (string join ' ' $at $word) ${paths.map(quoted).join(' ')}`,
    '          set at $at $word',
    '        end',
    '    end',
    '  end',
    '  test (string join \' \' $at) = "$argv[1]"',
    'end',
    ...places.flatMap(({ path, commands, options }) => {
      const when = `-n "__nexus_at '${path}'"`
      return [
        ...commands.map(([name, summary]) => `complete -c nexus -f ${when} -a ${name} -d ${quoted(summary)}`),
        ...options.map((option) => `complete -c nexus ${when} -l ${option.slice(2)}`),
      ]
    }),
  ].join('\n')
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
