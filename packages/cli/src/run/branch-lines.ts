import type {
  BranchedTurn,
  BranchReport,
  ChangedFile,
  FileState,
  ReplayDifference,
  ReplayedEvent,
  ReplayReport,
  SessionTotals,
} from '@nexus/engine'
import { formatBytes } from '../output.ts'
import { plain, shortened } from '../frame/text.ts'

const WIDTH = 66

/** What people see of a branch: for each input what only one side has, then files and totals. */
export function branchLines({
  fromTurn,
  firstDifference,
  turns,
  files,
  totals,
  notRebuilt,
  dir,
}: BranchReport): string[] {
  const { before, after } = totals
  return [
    ...(firstDifference === undefined ? [] : ['before the branch:', ...differenceLines(firstDifference)]),
    ...turns.flatMap((turn) => turnLines(turn)),
    ...(files.length === 0 ? ['files: the same'] : ['files:', ...files.map((file) => `  ${fileLine(file)}`)]),
    'totals:',
    `  turns   ${before.turns} -> ${after.turns}`,
    `  tokens  ${before.tokens} -> ${after.tokens}`,
    `  cost    ${dollars(before.costUsd)} -> ${dollars(after.costUsd)}`,
    ...(notRebuilt.length === 0
      ? []
      : [`not run again before turn ${fromTurn}, so their files may be missing: ${notRebuilt.map(plain).join(', ')}`]),
    ...(dir === undefined ? [] : [`kept in ${dir}`]),
  ]
}

/** The first event that differs, with both sides. */
export function differenceLines({ turn, event, expected, found }: ReplayDifference): string[] {
  const show = (side: typeof expected): string => (side === undefined ? 'nothing' : whole(side))
  return [`turn ${turn}, event ${event} differs`, `  session: ${show(expected)}`, `  replay:  ${show(found)}`]
}

function turnLines({ turn, input, same, removed, added }: BranchedTurn): string[] {
  const head = `turn ${turn}  ${shortened(plain(input), WIDTH - 8)}`
  if (same) return [`${head}  the same`]
  const lines = [
    ...removed.filter(isTold).map((event) => `  - ${brief(event)}`),
    ...added.filter(isTold).map((event) => `  + ${brief(event)}`),
  ]
  return lines.length === 0 ? [`${head}  said and done alike; the model was asked something else`] : [head, ...lines]
}

/**
 * What a model is asked holds the whole conversation, and differs whenever anything before it did; what it answered is what
 * was said or called next; gates that let pass say nothing.
 */
function isTold({ type, vetoed }: ReplayedEvent): boolean {
  return vetoed === true || !/^(?:before:|llm\.)/.test(type)
}

function fileLine({ path, before, after }: ChangedFile): string {
  const name = plain(path)
  if (before === undefined) return `+ ${name}  ${formatBytes(after?.sizeBytes ?? 0)}`
  if (after === undefined) return `- ${name}  ${formatBytes(before.sizeBytes)}`
  return `~ ${name}  ${formatBytes(before.sizeBytes)} -> ${formatBytes(after.sizeBytes)}`
}

function whole({ type, payload, vetoed, reason }: ReplayedEvent): string {
  const verdict = vetoed === true ? ` refused${reason === undefined ? '' : `: ${reason}`}` : ''
  return `${type} ${JSON.stringify(payload)}${verdict}`
}

/** An event in one line: what people look for in it. */
function brief(event: ReplayedEvent): string {
  const fields = (event.payload ?? {}) as Record<string, unknown>
  const { content, name, arguments: args, output, error } = fields
  const parts = [name, args, content, output, error].filter((part) => part !== undefined && part !== '')
  const verdict = event.vetoed === true ? `refused${event.reason === undefined ? '' : `: ${event.reason}`}` : undefined
  const text = [...parts, ...(verdict === undefined ? [] : [verdict])]
    .map((part) => (typeof part === 'string' ? part : JSON.stringify(part)))
    .join(' ')
  return shortened(`${event.type}  ${plain(text)}`.trimEnd(), WIDTH + 8)
}

function dollars(costUsd: number): string {
  return `${Number(costUsd.toFixed(6))} USD`
}

/** A report as programs get it. */
export function reportJson(report: ReplayReport | BranchReport): object {
  const { firstDifference, ...rest } = report
  const first = firstDifference === undefined ? {} : { first_difference: firstDifference }
  if (!('fromTurn' in rest)) return { ...rest, ...first }
  const { fromTurn, turns, files, totals, notRebuilt, dir } = rest
  const states = { before: totalsJson(totals.before), after: totalsJson(totals.after) }
  return {
    from_turn: fromTurn,
    ...first,
    turns,
    files: files.map(({ path, before, after }) => ({ path, before: stateJson(before), after: stateJson(after) })),
    totals: states,
    not_rebuilt: notRebuilt,
    dir,
  }
}

function totalsJson({ turns, tokens, costUsd }: SessionTotals): object {
  return { turn_count: turns, tokens_used: tokens, cost_usd: costUsd }
}

function stateJson(state: FileState | undefined): object | undefined {
  return state && { size: state.sizeBytes, sha256: state.sha256 }
}
