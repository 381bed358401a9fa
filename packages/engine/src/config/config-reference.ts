import { rootSchema } from './schema.ts'
import { schemaKeys, schemaTree } from './schema-tree.ts'

/** The reference page of every key, in Markdown; what the schema declares and nothing else. */
export function configReferencePage(): string {
  const root = schemaTree(rootSchema())
  const sections = new Map<string, string[]>()
  for (const [path, { note, fallback }] of schemaKeys(root)) {
    const block = path.slice(0, -1).join('.')
    const rows = sections.get(block) ?? []
    rows.push(`| \`${path.at(-1)}\` | ${note?.kind ?? ''} | ${shownDefault(fallback)} | ${note?.doc ?? ''} |`)
    sections.set(block, rows)
  }
  const parts = [INTRODUCTION]
  for (const [block, rows] of sections) {
    parts.push(`## \`${block}\`\n\n| key | type | default | |\n| --- | --- | --- | --- |\n${rows.join('\n')}`)
  }
  return `${[...parts, CLOSING].join('\n\n')}\n`
}

function shownDefault(fallback: unknown): string {
  if (fallback === undefined) return '–'
  if (fallback === '') return 'empty'
  if (Array.isArray(fallback)) return `\`[${fallback.join(', ')}]\``
  return `\`${typeof fallback === 'string' ? fallback : JSON.stringify(fallback)}\``
}

const INTRODUCTION = `# Configuration reference

<!-- Generated from the schemas of @nexus/engine by packages/engine/scripts/write-reference.ts. Do not edit. -->

The configuration is one YAML 1.2 document of at most 1 MiB. Every key has a default, so an empty file is a valid
configuration; a key with nothing after its colon counts as not written.

**Strict.** A key that is not listed here fails the load, and so does a value of the wrong type. All problems are reported
together, each with its path, line and column. Merge keys (\`<<\`), tags, duplicate keys, integers too large to be exact
(quote them), and the keys \`__proto__\`, \`constructor\` and \`prototype\` are refused at every depth.

**Environment.** \`\${NAME}\` in a value is replaced by the environment variable, which must be set; \`\${NAME:-default}\` falls
back where it is unset or empty; \`$\${\` is a literal \`\${\`. Keys are not expanded. The copy that a session keeps holds the
text as written, so what the variables hold never leaves the machine.

**Types.** A *duration* is \`30d\`, \`12h\`, \`5m\`, \`10s\`, \`250ms\`, a sum such as \`1h30m\`, or \`0\`. In a *path*, \`~\` and \`~/...\` are
the home directory, and a relative path starts at the working directory. A variable that reads like a number or like
\`true\`/\`false\` is one where the key wants one.`

const CLOSING = `## \`plugins.<plugin-id>\`

Every other key of \`plugins\` is the block of the plugin with that id, checked by the plugin's own schema.`
