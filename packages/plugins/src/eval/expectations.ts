import * as v from 'valibot'

const texts = v.optional(v.array(v.string()), [])
const whole = v.pipe(v.number(), v.integer(), v.minValue(0))

/** What a run is expected to have done. All that is named must hold. */
export interface Expectations {
  /** Texts that must be in some output. */
  outputs_contain: string[]
  /** Regular expressions that must fit some output. */
  outputs_match: string[]
  /** Names of tools that must have been called, and of those that must not. */
  tools_called: string[]
  tools_not_called: string[]
  /** Files, relative to the session, and a text that each must contain; an empty text: it must be there. */
  files: Record<string, string>
  max_tokens?: number | undefined
  /** How many turns may fail. */
  failed_turns: number
}

export const expectations: v.GenericSchema<unknown, Expectations> = v.strictObject({
  outputs_contain: texts,
  outputs_match: v.optional(
    v.array(
      v.pipe(
        v.string(),
        v.check((text) => isExpression(text), 'must be a regular expression'),
      ),
    ),
    [],
  ),
  tools_called: texts,
  tools_not_called: texts,
  files: v.optional(v.record(v.string(), v.string()), {}),
  max_tokens: v.optional(whole),
  failed_turns: v.optional(whole, 0),
})

/** What a run did, as its events told. */
export interface Observed {
  readonly outputs: readonly string[]
  readonly tools: ReadonlySet<string>
  readonly failedTurns: number
  readonly tokensUsed: number
  /** The text of a file of the session; undefined where there is none. */
  readonly readFile: (path: string) => Promise<string | undefined>
}

/** Every expectation that did not come true, as a sentence. */
export async function disappointments(expected: Expectations, observed: Observed): Promise<string[]> {
  const { outputs, tools, failedTurns, tokensUsed } = observed
  const missing: string[] = []
  for (const text of expected.outputs_contain) {
    if (!outputs.some((output) => output.includes(text))) missing.push(`no output contains ${JSON.stringify(text)}`)
  }
  for (const pattern of expected.outputs_match) {
    const expression = new RegExp(pattern)
    if (!outputs.some((output) => expression.test(output))) missing.push(`no output fits /${pattern}/`)
  }
  for (const tool of expected.tools_called) if (!tools.has(tool)) missing.push(`${tool} was not called`)
  for (const tool of expected.tools_not_called) if (tools.has(tool)) missing.push(`${tool} was called`)
  for (const [path, text] of Object.entries(expected.files)) {
    const content = await observed.readFile(path)
    if (content === undefined) missing.push(`there is no ${path}`)
    else if (!content.includes(text)) missing.push(`${path} doesn't contain ${JSON.stringify(text)}`)
  }
  if (failedTurns > expected.failed_turns) missing.push(`${failedTurns} turns failed`)
  if (expected.max_tokens !== undefined && tokensUsed > expected.max_tokens) {
    missing.push(`${tokensUsed} tokens were used, more than ${expected.max_tokens}`)
  }
  return missing
}

function isExpression(text: string): boolean {
  try {
    return new RegExp(text) instanceof RegExp
  } catch {
    return false
  }
}
