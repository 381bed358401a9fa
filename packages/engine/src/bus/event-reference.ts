import { eventDefinitions, type EventDefinition } from './event-definitions.ts'

/** The reference page of the engine's events, in Markdown; what the event definitions say and nothing else. */
export function eventReferencePage(): string {
  const sections = Object.entries(eventDefinitions()).map(([type, definition]) => section(type, definition))
  return `${[INTRODUCTION, ...sections].join('\n\n')}\n`
}

function section(type: string, { summary, version, open, fields }: EventDefinition): string {
  const rows = Object.entries(fields).map(
    ([name, { kind, doc, optional }]) => `| \`${name}\` | ${kind}${optional === true ? ', optional' : ''} | ${doc} |`,
  )
  const parts = [`## \`${type}\``, version === 1 ? summary : `${summary} \`_schema_version\` is ${version}.`]
  if (rows.length > 0) parts.push(`| field | type | |\n| --- | --- | --- |\n${rows.join('\n')}`)
  if (open === true) parts.push(rows.length > 0 ? 'More fields may be present.' : 'The fields are free.')
  return parts.join('\n\n')
}

const INTRODUCTION = `# Event reference

<!-- Generated from the event definitions of @nexus/engine by packages/engine/scripts/write-reference.ts. Do not edit. -->

Events that the engine emits or reads, with their payloads as they stand in the journal. Every payload carries
\`_schema_version\`, 1 unless said; the bus fills it in where the emitter left it out. Times are RFC 3339 in UTC.

Before an event that can be refused, \`before:<type>\` is dispatched with the same payload. A handler that returns
\`{vetoed: true, reason}\`, or calls \`event.veto(reason)\`, ends that dispatch, and the event itself is not emitted. The engine
does so for \`io.input\`.`
