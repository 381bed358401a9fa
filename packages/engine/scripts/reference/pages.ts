import { eventReferencePage } from './event-page.ts'
import { configJsonSchema } from '../../src/config/json-schema.ts'
import { configReferencePage } from './config-page.ts'

/** The files of docs/reference that are made from the tables of keys and events, by name. */
export function referencePages(): Readonly<Record<string, string>> {
  return {
    'configuration.md': configReferencePage(),
    'config.schema.json': `${JSON.stringify(configJsonSchema(), undefined, 2)}\n`,
    'events.md': eventReferencePage(),
  }
}
