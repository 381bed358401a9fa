import type { Engine } from '@nexus/engine'
import type { LlmDelta } from '@nexus/plugins'
import { plain, printable, shortened } from '../frame/text.ts'
import type { Output } from '../output.ts'

/** How much of a call of a tool is shown, in characters. */
const BRIEF = 100
/** The source of an input that the engine gives again. */
const REFIRED = 'engine.resume'

/** How a turn went. */
export interface TurnReport {
  ok: boolean
  /** Why the input was refused, or the turn failed or was cancelled. */
  error?: string | undefined
}

/** Shows a session: to a person on a terminal, or to a program. */
export interface FrontEnd {
  /** Before the boot: from here on its events are shown. */
  attach(engine: Engine): void
  delta(delta: LlmDelta): void
  turn(report: TurnReport): void
  /** Says something about the session. */
  note(text: string): void
  end(engine: Engine): void
}

/** For a person: answers on standard output as they come, everything else on standard error. */
export function textFrontEnd(output: Output): FrontEnd {
  const isTerminal = output.columns !== undefined
  let streamed = ''
  const shown = (text: string): string => (isTerminal ? printable(text) : text)
  const endLine = (): void => {
    if (streamed !== '' && !streamed.endsWith('\n')) output.line('')
    streamed = ''
  }
  return {
    attach(engine) {
      engine.bus.subscribe('core.ready', () => {
        if (isTerminal) output.note(`session ${engine.sessionId}  (Ctrl-C cancels a turn, Ctrl-D ends)`)
      })
      engine.bus.subscribe('io.input', ({ source, payload }) => {
        // What a killed run left unfinished is given again: nobody typed it here.
        if (source === REFIRED) output.note(`> ${shown(payload.content)}`)
      })
      engine.bus.subscribe('tool.invoke', ({ payload: { name, arguments: args } }) => {
        endLine()
        const call = plain(`${name} ${JSON.stringify(args) ?? ''}`)
        output.note(`  ${shortened(call, Math.min(BRIEF, output.columns ?? BRIEF) - 2)}`)
      })
      engine.bus.subscribe('io.output', ({ payload }) => {
        // A model that doesn't stream has said nothing yet.
        if (streamed === '') output.line(shown(payload.content))
        endLine()
      })
    },
    delta({ role, text, restarted }) {
      if (role !== 'main') return
      if (restarted === true) endLine()
      streamed += text
      output.piece(shown(text))
    },
    turn({ error }) {
      endLine()
      if (error !== undefined) output.note(`(${error})`)
    },
    note(text) {
      endLine()
      output.note(text)
    },
    end(engine) {
      output.note(`session ${engine.sessionId}`)
    },
  }
}

/** For a program: a JSON object per line. */
export function jsonFrontEnd(output: Output): FrontEnd {
  const say = (event: string, fields: object): void => output.line(JSON.stringify({ event, ...fields }))
  return {
    attach(engine) {
      engine.bus.subscribe('core.ready', () => {
        const { dir, resumed } = engine.status()
        say('session', { id: engine.sessionId, dir, resumed })
      })
      engine.bus.subscribe('tool.invoke', ({ payload: { id, name, arguments: args } }) =>
        say('tool', { id, name, arguments: args }),
      )
      engine.bus.subscribe('tool.result', ({ payload: { id, name, output: given, error } }) =>
        say('tool_result', { id, name, output: given, error }),
      )
      engine.bus.subscribe('io.output', ({ payload: { content, turn_id } }) => say('output', { content, turn_id }))
    },
    delta: ({ role, text, restarted }) => say('delta', { role, text, restarted }),
    turn: ({ ok, error }) => say('turn', { ok, error }),
    note: (text) => output.note(text),
    end: (engine) => say('end', totals(engine)),
  }
}

function totals(engine: Engine): object {
  const { turnCount, tokensUsed, costUsd } = engine.session.meta()
  return { turn_count: turnCount, tokens_used: tokensUsed, cost_usd: costUsd }
}
