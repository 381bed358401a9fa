import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  type Node,
  type Pair,
  type ParsedNode,
  type YAMLError,
} from 'yaml'
import type { ConfigPath, ConfigProblem, TextPosition } from './problem.ts'
import { expandEnvironment, type Environment } from './environment.ts'

/** A YAML text as plain values, with everything that is wrong about the text itself. */
export interface ConfigDocument {
  /** Plain objects, arrays, strings, numbers, booleans and null; environment variables are filled in. */
  readonly value: Readonly<Record<string, unknown>>
  readonly problems: readonly ConfigProblem[]
  /** Strings that hold something of the environment, by path as {@link pathKey} writes it, as they stand in the text. */
  readonly unexpanded: ReadonlyMap<string, string>
  /** Where a value stands in the text; that of the nearest enclosing one where there is none. */
  readonly locate: (path: ConfigPath) => TextPosition | undefined
}

/** How a YAML text is read. */
export interface YamlReadOptions {
  readonly environment: Environment
  /** Whether a variable may be filled in at a path; where not, its reference stays as it is written. Default: everywhere. */
  readonly mayExpand?: (path: ConfigPath, name: string) => boolean
}

const MAX_DEPTH = 64
const MAX_ALIASED_VALUES = 10_000
const MAX_SYNTAX_PROBLEMS = 20
const FORBIDDEN_KEYS: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])
const HALF_PAIR = /\p{Surrogate}/u
const PLAIN_TAGS: ReadonlySet<string> = new Set(
  ['str', 'int', 'float', 'bool', 'null', 'map', 'seq'].map((name) => `tag:yaml.org,2002:${name}`),
)

/** A path as one string; NUL can't be in a key that was accepted. */
export function pathKey(path: ConfigPath): string {
  return path.join('\0')
}

/** Reads one YAML 1.2 document. Never throws on account of the text. */
export function readYaml(text: string, options: YamlReadOptions): ConfigDocument {
  return new YamlReader(text, options).read()
}

class YamlReader {
  readonly #text: string
  readonly #options: YamlReadOptions
  readonly #lines = new LineCounter()
  readonly #problems: ConfigProblem[] = []
  readonly #offsets = new Map<string, number>()
  readonly #unexpanded = new Map<string, string>()
  readonly #anchors = new Map<string, Node>()
  /** Nodes that an alias is being replaced by, to notice an anchor inside itself. */
  readonly #expanding = new Set<Node>()
  #aliasedValues = 0

  constructor(text: string, options: YamlReadOptions) {
    this.#text = text.startsWith('\uFEFF') ? text.slice(1) : text
    this.#options = options
  }

  read(): ConfigDocument {
    const value = this.#readTop()
    return {
      value,
      problems: this.#problems,
      unexpanded: this.#unexpanded,
      locate: (path) => {
        for (let length = path.length; length >= 0; length--) {
          const offset = this.#offsets.get(pathKey(path.slice(0, length)))
          if (offset !== undefined) return this.#position(offset)
        }
        return undefined
      },
    }
  }

  #readTop(): Readonly<Record<string, unknown>> {
    // Duplicate keys are looked for here, by a set: the library compares every pair of keys with every other.
    const document = parseDocument(this.#text, {
      version: '1.2',
      schema: 'core',
      intAsBigInt: true,
      uniqueKeys: false,
      merge: false,
      prettyErrors: false,
      lineCounter: this.#lines,
    })
    this.#syntaxProblems([...document.errors, ...document.warnings])
    const { yaml } = document.directives
    if (yaml.explicit === true && yaml.version !== '1.2')
      this.#problem([], 0, 'only YAML 1.2 is read; remove the %YAML directive')
    // What a broken text was taken for would only add problems that aren't there.
    if (this.#problems.length > 0 || document.contents === null) return {}
    this.#offsets.set('', 0)
    const value = this.#value(document.contents, [], false)
    if (isRecord(value)) return value
    if (value !== null && value !== undefined) this.#problem([], 0, 'must be a map of keys at the top level')
    return {}
  }

  /** One for each line: a single slip makes the parser stumble over everything behind it. */
  #syntaxProblems(errors: readonly YAMLError[]): void {
    const lines = new Set<number>()
    for (const { code, message, pos } of errors) {
      const { line } = this.#position(pos[0])
      if (lines.has(line) || lines.size >= MAX_SYNTAX_PROBLEMS) continue
      lines.add(line)
      const reason = code === 'MULTIPLE_DOCS' ? 'holds more than one YAML document; keep one' : firstLine(message)
      const text = this.#text.split('\n', line).at(-1) as string
      const unquoted = text.includes('${') && /[{[,]/.test(text.slice(0, text.indexOf('${')))
      this.#problem([], pos[0], unquoted ? `${reason} (quote values with "\${" inside { } and [ ])` : reason)
    }
  }

  #value(node: Node, path: ConfigPath, aliased: boolean): unknown {
    if (path.length > MAX_DEPTH) return this.#problem(path, offsetOf(node), `is nested deeper than ${MAX_DEPTH} levels`)
    if (aliased && ++this.#aliasedValues > MAX_ALIASED_VALUES) {
      // Said once: every further value would only repeat it.
      if (this.#aliasedValues > MAX_ALIASED_VALUES + 1) return undefined
      return this.#problem(
        path,
        offsetOf(node),
        `aliases expand to more than ${MAX_ALIASED_VALUES} values; write them out`,
      )
    }
    if (isAlias(node)) return this.#alias(node.source, node, path)
    this.#noteAnchor(node, path, aliased)
    if (node.tag !== undefined && !PLAIN_TAGS.has(node.tag)) {
      return this.#problem(path, offsetOf(node), `has the tag ${node.tag}; only plain values are read`)
    }
    if (isMap<ParsedNode, ParsedNode | null>(node)) return this.#map(node.items, path, aliased)
    if (isSeq<ParsedNode>(node)) return node.items.map((item, index) => this.#child(item, [...path, index], aliased))
    return isScalar(node) ? this.#scalar(node.value, node, path) : undefined
  }

  #child(node: Node, path: ConfigPath, aliased: boolean): unknown {
    this.#offsets.set(pathKey(path), offsetOf(node))
    return this.#value(node, path, aliased)
  }

  #map(items: readonly Pair<ParsedNode, ParsedNode | null>[], path: ConfigPath, aliased: boolean): unknown {
    const result: Record<string, unknown> = {}
    for (const { key: keyNode, value } of items) {
      const key = this.#key(keyNode, path)
      if (key === undefined) continue
      const keyPath = [...path, key]
      const offset = offsetOf(keyNode)
      if (Object.hasOwn(result, key)) {
        this.#problem(keyPath, offset, `stands here twice; first at line ${this.#lineOf(keyPath)}`)
        continue
      }
      this.#offsets.set(pathKey(keyPath), offset)
      result[key] = value === null ? null : this.#value(value, keyPath, aliased)
    }
    return result
  }

  #key(node: ParsedNode, path: ConfigPath): string | undefined {
    const offset = offsetOf(node)
    if (!isScalar(node) || node.value === null || node.tag !== undefined) {
      this.#problem(path, offset, 'has a key that is no plain name')
      return undefined
    }
    const key = typeof node.value === 'string' ? node.value : (node.source ?? '')
    if (node.anchor !== undefined) this.#problem(path, offset, 'has an anchor on a key')
    if (key === '<<' && node.type === 'PLAIN') {
      this.#problem(path, offset, 'uses a merge key (<<), which YAML 1.2 does not have; write the keys out')
      return undefined
    }
    if (FORBIDDEN_KEYS.has(key) || key.includes('\0') || HALF_PAIR.test(key)) {
      this.#problem(path, offset, `has the key ${JSON.stringify(key)}, which is never accepted`)
      return undefined
    }
    return key
  }

  #alias(name: string, node: Node, path: ConfigPath): unknown {
    const target = this.#anchors.get(name)
    if (target === undefined) return this.#problem(path, offsetOf(node), `*${name} has no anchor before it`)
    if (this.#expanding.has(target)) return this.#problem(path, offsetOf(node), `*${name} stands inside its own anchor`)
    this.#expanding.add(target)
    const value = this.#value(target, path, true)
    this.#expanding.delete(target)
    return value
  }

  #noteAnchor(node: Node, path: ConfigPath, aliased: boolean): void {
    const anchor = 'anchor' in node ? node.anchor : undefined
    if (typeof anchor !== 'string' || aliased) return
    if (this.#anchors.has(anchor)) this.#problem(path, offsetOf(node), `defines the anchor &${anchor} again`)
    this.#anchors.set(anchor, node)
  }

  #scalar(value: unknown, node: Node, path: ConfigPath): unknown {
    if (typeof value === 'bigint') {
      const number = Number(value)
      if (Number.isSafeInteger(number)) return number
      return this.#problem(
        path,
        offsetOf(node),
        `${value} is too large for an exact number; quote it to give it as text`,
      )
    }
    if (typeof value !== 'string') return value
    if (HALF_PAIR.test(value)) return this.#problem(path, offsetOf(node), 'holds half of a surrogate pair')
    if (!value.includes('${')) return value
    const { environment, mayExpand } = this.#options
    const expansion = expandEnvironment(value, environment, (name) => mayExpand?.(path, name) ?? true)
    if ('problem' in expansion) return this.#problem(path, offsetOf(node), expansion.problem)
    this.#unexpanded.set(pathKey(path), value)
    return expansion.text
  }

  #problem(path: ConfigPath, offset: number, message: string): undefined {
    this.#problems.push({ path, message, position: this.#position(offset) })
  }

  #position(offset: number): TextPosition {
    const { line, col } = this.#lines.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }

  #lineOf(path: ConfigPath): number {
    return this.#position(this.#offsets.get(pathKey(path)) ?? 0).line
  }
}

function offsetOf(node: Node): number {
  return node.range?.[0] ?? 0
}

function firstLine(message: string): string {
  return message.split('\n', 1)[0] as string
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
