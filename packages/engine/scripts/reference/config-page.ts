import { configKeys, type ConfigKey } from '../../src/config/config-keys.ts'

/** The reference page of every key, in Markdown; what the table says and nothing else. */
export function configReferencePage(): string {
  const sections = new Map<string, string[]>()
  for (const [path, key] of configKeys()) {
    const block = path.slice(0, -1).join('.')
    const name = path.at(-1) === '*' ? '<plugin-id>' : path.at(-1)
    sections.set(block, [
      ...(sections.get(block) ?? []),
      `| \`${name}\` | ${kindOf(key)} | ${defaultOf(key)} | ${key.whose} | ${docOf(key)} |`,
    ])
  }
  const parts = [INTRODUCTION]
  for (const [block, rows] of sections) {
    parts.push(
      `## \`${block}\`\n\n| key | type | default | whose | |\n| --- | --- | --- | --- | --- |\n${rows.join('\n')}`,
    )
  }
  return `${parts.join('\n\n')}\n`
}

function kindOf(key: ConfigKey): string {
  if (key.kind === 'choice') return words(key.of)
  if (key.kind === 'list') return `list of ${key.of}`
  if (key.kind === 'mebibytes') return 'number'
  if (key.kind === 'replaced') return 'boolean'
  return key.kind
}

function defaultOf(key: ConfigKey): string {
  if (key.kind === 'map') return '`{}`'
  if (!('default' in key)) return '–'
  if (key.default === '') return 'empty'
  return `\`${Array.isArray(key.default) ? `[${key.default.join(', ')}]` : String(key.default)}\``
}

function docOf(key: ConfigKey): string {
  if (key.kind === 'replaced') {
    const values = Object.entries(key.values).map(([old, value]) => `\`${old}\` is \`${value}\``)
    return `${key.doc} ${values.join(', ')}. Read with a warning.`
  }
  if (key.kind !== 'choice' || key.notYet === undefined) return key.doc
  return `${key.doc} Not available in this version: ${words(key.notYet)}.`
}

function words(options: readonly string[]): string {
  return options.map((option) => `\`${option}\``).join(', ')
}

const INTRODUCTION = `# Configuration reference

<!-- Generated from the table of keys of @nexus/engine by packages/engine/scripts/write-reference.ts. Do not edit. -->

The configuration is one YAML 1.2 document of at most 1 MiB. Every key has a default, so an empty file is a valid
configuration; a key with nothing after its colon counts as not written. For editors there is a JSON Schema,
[config.schema.json](config.schema.json): begin the file with \`# yaml-language-server: $schema=<its path>\`.

**Strict.** A key that is not listed here fails the load, and so does a value of the wrong type. All problems are reported
together, each with its path, line and column. Merge keys (\`<<\`), tags, duplicate keys, integers too large to be exact
(quote them), and the keys \`__proto__\`, \`constructor\` and \`prototype\` are refused at every depth.

**Environment.** \`\${NAME}\` in a value is replaced by the environment variable, which must be set; \`\${NAME:-default}\` falls
back where it is unset or empty; \`$\${\` is a literal \`\${\`. Keys are not expanded. The copy that a session keeps holds the
text as written, so what the variables hold never leaves the machine, and no message shows it.

**Whose.** A resumed session brings the keys marked *session*, as the copy in its tree writes them; what it doesn't write,
and every key marked *host*, is that of the configuration this program was given. A variable in a session's copy is filled
in only where the given configuration names the same variable in the same block; elsewhere the reference stays as it is
written, with a warning. \`useConfigSnapshot: false\` brings nothing.

**Types.** A *duration* is \`30d\`, \`12h\`, \`5m\`, \`10s\`, \`250ms\`, a sum such as \`1h30m\`, or \`0\`. In a *path*, \`~\` and \`~/...\` are
the home directory, and a relative path starts at the working directory. A variable that reads like a number or like
\`true\`/\`false\` is one where the key wants one.`
