import { readFile } from 'node:fs/promises'
import type { Plugin } from '@nexus/engine'
import * as v from 'valibot'
import { TurnSignals } from '../turn/turn-signals.ts'
import { answerRequests, type ModelOptions, withDefaults } from './answer-requests.ts'
import { type Script, scriptedAnswer, scriptSchema } from './script.ts'

const schema = v.pipe(
  v.strictObject({
    /** A YAML or JSON file with the list of answers; relative to the working directory. */
    file: v.optional(v.string()),
    /** The list itself. */
    answers: v.optional(scriptSchema),
    /** The roles that it answers; absent: all. */
    roles: v.optional(v.array(v.string())),
  }),
  v.check(
    ({ file, answers }) => (file === undefined) !== (answers === undefined),
    'give `file` or `answers`, one of them',
  ),
)

/**
 * `nexus.llm.scripted`: a model that answers from a script, for tests, demos and evaluations. What it says depends on the
 * conversation in the request and on nothing else, so a turn that is given again is answered in the same way.
 *
 * @see docs/guides/standard-plugins.md
 */
export function scriptedModel({ defaults, onDelta }: ModelOptions = {}): Plugin {
  let signals: TurnSignals | undefined
  const plugin: Plugin<v.InferOutput<typeof schema>> = {
    id: 'nexus.llm.scripted',
    name: 'Scripted model',
    version: '1.0.0',
    configSchema: withDefaults(schema, defaults),
    async init(context) {
      const { file, answers = [], roles } = context.config
      const script = file === undefined ? answers : await readScript(file)
      signals = new TurnSignals(context.bus)
      answerRequests(context, signals, { onDelta, roles }, async (request, { write }) => {
        const answer = scriptedAnswer(script, request)
        for (const [word] of answer.content.matchAll(/\S+\s*/g)) write(word)
        return answer
      })
    },
    shutdown: () => signals?.close(),
  }
  return plugin
}

async function readScript(path: string): Promise<Script> {
  const { parse } = await import('yaml')
  return v.parse(scriptSchema, parse(await readFile(path, 'utf8')))
}
