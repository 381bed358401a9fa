import type { Plugin, PluginContext } from '@nexus/engine'
import * as v from 'valibot'
import { FileTree } from './file-tree.ts'
import { defineTool, type ServedTools, serveTools, type Tool } from './serve-tools.ts'

const schema = v.strictObject({
  /** How much of a file or a search one call gives, in bytes. */
  max_output_bytes: v.optional(v.pipe(v.number(), v.integer(), v.minValue(256)), 64 * 1024),
  /** The largest file that is read, edited or searched, in bytes. */
  max_file_bytes: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1)), 16 * 1024 * 1024),
})
type Config = v.InferOutput<typeof schema>

const path = v.pipe(v.string(), v.minLength(1), v.description('Path of the file, relative, with /'))
const lines = v.pipe(v.number(), v.integer(), v.minValue(1))

/**
 * `nexus.tool.files`: lets the model read, write, edit, append to, list and search files below the session's `files/`, and
 * nothing outside of it.
 *
 * @see docs/guides/standard-plugins.md
 */
export function fileTools(): Plugin {
  let tools: ServedTools
  const plugin: Plugin<Config> = {
    id: 'nexus.tool.files',
    name: 'File tools',
    version: '1.0.0',
    configSchema: schema,
    init(context) {
      tools = serveTools(context, toolsOf(context), { confined: true })
    },
    ready: () => tools.announce(),
    shutdown: () => tools.close(),
  }
  return plugin
}

function toolsOf({ session, config }: PluginContext<Config>): Tool[] {
  const tree = new FileTree(session, config.max_file_bytes)
  const cut = (text: string): string => cutAt(text, config.max_output_bytes)
  return [
    defineTool({
      name: 'read_file',
      description: 'Reads a text file, or some of its lines.',
      parameters: v.object({
        path,
        from_line: v.optional(v.pipe(lines, v.description('First line, from 1'))),
        line_count: v.optional(v.pipe(lines, v.description('How many lines'))),
      }),
      run: async ({ path: name, from_line: from, line_count: count }) => {
        const text = await tree.read(name)
        if (from === undefined && count === undefined) return cut(text)
        const first = (from ?? 1) - 1
        return cut(
          text
            .split('\n')
            .slice(first, count === undefined ? undefined : first + count)
            .join('\n'),
        )
      },
    }),
    defineTool({
      name: 'write_file',
      description: 'Writes a whole text file; one that exists is replaced.',
      parameters: v.object({ path, content: v.string() }),
      run: async ({ path: name, content }) => {
        await tree.write(name, content)
        return `wrote ${Buffer.byteLength(content)} bytes to ${name}`
      },
    }),
    defineTool({
      name: 'edit_file',
      description:
        'Replaces a piece of a text file. The piece must be in it exactly once, unless all are to be replaced.',
      parameters: v.object({
        path,
        old_text: v.pipe(v.string(), v.minLength(1)),
        new_text: v.string(),
        replace_all: v.optional(v.boolean(), false),
      }),
      run: async ({ path: name, old_text: before, new_text: after, replace_all: all }) => {
        const parts = (await tree.read(name)).split(before)
        const found = parts.length - 1
        if (found === 0) throw new Error(`${name} doesn't contain the text to replace`)
        if (found > 1 && !all)
          throw new Error(`${name} contains the text ${found} times: give more of its surroundings`)
        await tree.write(name, parts.join(after))
        return `replaced ${found} in ${name}`
      },
    }),
    defineTool({
      name: 'append_file',
      description: 'Adds text to the end of a file, which is made where there is none.',
      parameters: v.object({ path, content: v.string() }),
      run: async ({ path: name, content }) => {
        await tree.append(name, content)
        return `added ${Buffer.byteLength(content)} bytes to ${name}`
      },
    }),
    defineTool({
      name: 'list_files',
      description: 'Lists files with their sizes in bytes, below a directory or all of them.',
      parameters: v.object({ directory: v.optional(v.string(), '') }),
      run: async ({ directory }) => {
        const found = await tree.list(directory)
        return cut(found.map(({ path: name, sizeBytes }) => `${name} (${sizeBytes})`).join('\n')) || 'no files'
      },
    }),
    defineTool({
      name: 'search_files',
      description: 'Finds lines that contain a text, in all files or below a directory, as path:line: text.',
      parameters: v.object({
        text: v.pipe(v.string(), v.minLength(1)),
        directory: v.optional(v.string(), ''),
        ignore_case: v.optional(v.boolean(), false),
      }),
      run: async ({ text, directory, ignore_case: ignoreCase }, { signal }) => {
        const fold = (line: string): string => (ignoreCase ? line.toLowerCase() : line)
        const wanted = fold(text)
        const hits: string[] = []
        let sizeBytes = 0
        for (const { path: name } of await tree.list(directory)) {
          signal.throwIfAborted()
          if (sizeBytes > config.max_output_bytes) break
          const content = await tree.searchable(name)
          for (const [index, line] of (content ?? '').split('\n').entries()) {
            if (!fold(line).includes(wanted)) continue
            hits.push(`${name}:${index + 1}: ${line}`)
            sizeBytes += line.length
          }
        }
        return cut(hits.join('\n')) || 'no lines'
      },
    }),
  ]
}

/** The text up to a number of bytes, with a note where it was longer. */
export function cutAt(text: string, limitBytes: number): string {
  const bytes = Buffer.from(text)
  if (bytes.byteLength <= limitBytes) return text
  // A character that the cut divides is left out as a whole.
  const kept = new TextDecoder().decode(bytes.subarray(0, limitBytes), { stream: true })
  return `${kept}\n[cut: ${bytes.byteLength - limitBytes} more bytes]`
}
