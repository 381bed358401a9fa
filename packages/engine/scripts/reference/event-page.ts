import type { EventField } from '@nexus/durability/events'
import { eventRows, type EventRow, type FieldTypes } from '../../src/bus/events.ts'

/** The reference page of the engine's events, in Markdown; what the table says and nothing else. */
export function eventReferencePage(): string {
  const own = eventRows().filter(([, { fields }]) => fields !== undefined)
  const others = eventRows()
    .filter(([, { fields }]) => fields === undefined)
    .map(([type, row]) => `| \`${type}\` | ${row.summary}${remarks(row)} |`)
  return `${[INTRODUCTION, ...own.map(([type, row]) => section(type, row)), `${OTHERS}\n${others.join('\n')}`].join('\n\n')}\n`
}

function section(type: string, row: EventRow): string {
  const rows = Object.entries(row.fields ?? {}).map(
    ([name, field]) =>
      `| \`${name}\` | ${kindOf(field)}${field.optional === true ? ', optional' : ''} | ${field.doc} |`,
  )
  const parts = [`## \`${type}\``, row.summary + remarks(row)]
  if (rows.length > 0) parts.push(`| field | type | |\n| --- | --- | --- |\n${rows.join('\n')}`)
  if (row.open === true) parts.push(rows.length > 0 ? 'More fields may be present.' : 'The fields are free.')
  return parts.join('\n\n')
}

function remarks({ version, vetoable, writtenAhead, sideEffect }: EventRow): string {
  let text = version === undefined ? '' : ` \`_schema_version\` is ${version}.`
  if (vetoable === true) text += ' Vetoable.'
  if (writtenAhead === true) text += ' Written ahead.'
  return sideEffect === true ? `${text} Written ahead; a side effect.` : text
}

function kindOf({ kind }: EventField<FieldTypes>): string {
  if (typeof kind !== 'string') return kind.map((word) => `\`${word}\``).join(', ')
  return kind === 'usage' ? 'object' : kind
}

const INTRODUCTION = `# Event reference

<!-- Generated from the table of events of @nexus/engine by packages/engine/scripts/write-reference.ts. Do not edit. -->

Events that the engine emits or reads, with their payloads as they stand in the journal. Every payload carries
\`_schema_version\`, 1 unless said; the bus fills it in where the emitter left it out. Times are RFC 3339 in UTC.

Before an event that can be refused, \`before:<type>\` is dispatched with the same payload. A handler that returns
\`{vetoed: true, reason}\`, or calls \`event.veto(reason)\`, ends that dispatch, and the event itself is not emitted. The engine
does so for events marked *vetoable*.

An event marked *written ahead* is with the kernel before its first handler runs: a process that dies in a handler leaves it
on disk. A *side effect* stands for something outside the session; replay answers it from the journal instead.`

const OTHERS = `## Events of plugins

The engine doesn't know the payloads of these types, but treats them in its own way.

| type | |
| --- | --- |`
