import { NexusError, type Plugin, type PluginStorage } from '@nexus/engine'
import * as v from 'valibot'
import { defineTool, type ServedTools, serveTools, type Tool } from './serve-tools.ts'

const schema = v.strictObject({
  /** Whose notes: of the session, of the agent, or of the whole machine. */
  scope: v.optional(v.picklist(['session', 'agent', 'app']), 'session'),
})

interface Note {
  id: number
  title: string
  text: string
}

/**
 * `nexus.tool.sqlite`: lets the model keep notes in SQLite and find them again by full-text search.
 *
 * @see docs/guides/standard-plugins.md
 */
export function noteTools(): Plugin {
  let tools: ServedTools
  const plugin: Plugin<v.InferOutput<typeof schema>> = {
    id: 'nexus.tool.sqlite',
    name: 'Notes',
    version: '1.0.0',
    configSchema: schema,
    init(context) {
      const storage = context.storage(context.config.scope)
      storage.db.exec('CREATE VIRTUAL TABLE IF NOT EXISTS notes USING fts5(title, text)')
      tools = serveTools(context, toolsOf(storage), { confined: true })
    },
    ready: () => tools.announce(),
    shutdown: () => tools.close(),
  }
  return plugin
}

function toolsOf({ db }: PluginStorage): Tool[] {
  const noteId = v.pipe(v.number(), v.integer(), v.description('Id of the note'))
  return [
    defineTool({
      name: 'add_note',
      description: 'Keeps a note. Gives its id.',
      parameters: v.object({ title: v.string(), text: v.string() }),
      run: ({ title, text }) => {
        const { lastInsertRowid } = db.prepare('INSERT INTO notes (title, text) VALUES (?, ?)').run(title, text)
        return { id: Number(lastInsertRowid) }
      },
    }),
    defineTool({
      name: 'search_notes',
      description: 'Finds notes that contain all words of a query, the best first.',
      parameters: v.object({
        query: v.pipe(v.string(), v.minLength(1)),
        limit: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(50)), 10),
      }),
      run: ({ query, limit }) =>
        db
          .prepare<[string, number], { id: number; title: string; excerpt: string }>(
            "SELECT rowid AS id, title, snippet(notes, 1, '', '', '...', 24) AS excerpt FROM notes WHERE notes MATCH ? ORDER BY rank LIMIT ?",
          )
          .all(quoted(query), limit),
    }),
    defineTool({
      name: 'read_note',
      description: 'Gives a whole note.',
      parameters: v.object({ id: noteId }),
      run: ({ id }) => {
        const note = db.prepare<[number], Note>('SELECT rowid AS id, title, text FROM notes WHERE rowid = ?').get(id)
        if (note === undefined) throw noNote(id)
        return note
      },
    }),
    defineTool({
      name: 'delete_note',
      description: 'Removes a note.',
      parameters: v.object({ id: noteId }),
      run: ({ id }) => {
        if (db.prepare('DELETE FROM notes WHERE rowid = ?').run(id).changes === 0) throw noNote(id)
        return 'removed'
      },
    }),
  ]
}

/** Words as words: what FTS5 reads as operators or syntax is searched like any other. */
function quoted(query: string): string {
  return query
    .split(/\s+/)
    .filter((word) => word !== '')
    .map((word) => `"${word.replaceAll('"', '""')}"`)
    .join(' ')
}

function noNote(id: number): NexusError {
  return new NexusError('NOT_FOUND', `there is no note ${id}`, { op: 'tool.sqlite', key: String(id) })
}
