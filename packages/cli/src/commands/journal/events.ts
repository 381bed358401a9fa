import type { JournalEnvelope } from '@nexus/journal'
import { exact, plain, shortened } from '../../frame/text.ts'

/** An event as one line for people, cut to the terminal. */
export function eventLine({ seq, ts, type, source, payload, vetoed }: JournalEnvelope, columns = 200): string {
  const what = `${String(seq).padStart(6)}  ${exact(Date.parse(ts))}  ${type}${vetoed === true ? ' (vetoed)' : ''}`
  const from = source === '' ? '' : `  [${source}]`
  return shortened(plain(`${what}${from}  ${JSON.stringify(payload) ?? ''}`), columns)
}

/** What narrows a journal down. */
export interface EventFilter {
  type: readonly string[]
  since?: number | undefined
  until?: number | undefined
}

/** Whether an event is of one of the types, each a name or a beginning such as `tool.*`; no types are all. */
export function isOfTypes({ type }: { type: string }, types: readonly string[]): boolean {
  return (
    types.length === 0 ||
    types.some((wanted) => (wanted.endsWith('*') ? type.startsWith(wanted.slice(0, -1)) : type === wanted))
  )
}
