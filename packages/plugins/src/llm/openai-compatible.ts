import { NexusError, type Plugin } from '@nexus/engine'
import type { OpenAI } from 'openai'
import { TurnSignals } from '../turn/turn-signals.ts'
import {
  type AnswerContext,
  answerRequests,
  type LlmRequest,
  type LlmResponse,
  type ModelOptions,
  withDefaults,
} from './answer-requests.ts'
import { modelError } from './openai-errors.ts'
import { AnswerParts, bodyOf } from './openai-messages.ts'
import { openAiOptions, type OpenAiOptions } from './openai-options.ts'

/**
 * `nexus.llm.openai_compatible`: asks a model over the chat completions API of OpenAI, which most providers and local servers
 * speak. Streams; sends again what met an outage, a limit, or an answer that broke off.
 *
 * @see docs/guides/standard-plugins.md
 */
export function openAiCompatible({ defaults, onDelta }: ModelOptions = {}): Plugin {
  let signals: TurnSignals | undefined
  const plugin: Plugin<OpenAiOptions> = {
    id: 'nexus.llm.openai_compatible',
    name: 'OpenAI-compatible model',
    version: '1.0.0',
    configSchema: withDefaults(openAiOptions, defaults),
    init(context) {
      signals = new TurnSignals(context.bus)
      const model = new RemoteModel(context.config)
      answerRequests(context, signals, { onDelta, roles: context.config.roles }, (request, about) =>
        model.answer(request, about),
      )
    },
    shutdown: () => signals?.close(),
  }
  return plugin
}

/** An answer that grows beyond this many characters is none. */
const MAX_ANSWER = 8 * 1024 * 1024
/** Before an answer that broke off is asked for again; the library has pauses of its own for the rest. */
const PAUSE_MS = 250

class RemoteModel {
  readonly #options: OpenAiOptions
  #client: Promise<OpenAI> | undefined

  constructor(options: OpenAiOptions) {
    this.#options = options
  }

  async answer(request: LlmRequest, context: AnswerContext): Promise<LlmResponse> {
    const { max_retries: maxRetries, api_key: apiKey } = this.#options
    const { signal, turnId } = context
    for (let attempt = 0; ; attempt++) {
      try {
        const parts = await this.#ask(request, context)
        return parts.response(
          (index) => `call-${turnId ?? 'x'}-${request.messages.length}-${index + 1}`,
          (usage) => this.#cost(usage),
        )
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof BrokenAnswer) || attempt >= maxRetries) throw modelError(error, apiKey)
        context.restart()
        await pause(PAUSE_MS * 2 ** attempt, signal)
      }
    }
  }

  async #ask(request: LlmRequest, { signal, write }: AnswerContext): Promise<AnswerParts> {
    this.#client ??= newClient(this.#options)
    const client = await this.#client
    const body = bodyOf(request, this.#options.model, this.#options.parameters)
    const parts = new AnswerParts()
    if (!this.#options.stream) {
      write(parts.addWhole(await client.chat.completions.create(body, { signal })))
      return parts
    }
    const idle = new IdleTimer(this.#options.idle_timeout_ms, signal)
    try {
      const stream = await client.chat.completions.create(
        { ...body, stream: true, stream_options: { include_usage: true } },
        { signal: idle.signal },
      )
      idle.restart()
      await this.#read(stream, parts, idle, write)
    } finally {
      idle.stop()
    }
    return parts
  }

  async #read(
    stream: AsyncIterable<OpenAI.ChatCompletionChunk>,
    parts: AnswerParts,
    idle: IdleTimer,
    write: (text: string) => void,
  ): Promise<void> {
    let failure: unknown
    try {
      for await (const chunk of stream) {
        idle.restart()
        const text = parts.addChunk(chunk)
        if (text !== '') write(text)
        if (parts.size > MAX_ANSWER) break
      }
    } catch (error) {
      failure = error
    }
    if (idle.isLate) throw new BrokenAnswer(`the answer paused for more than ${this.#options.idle_timeout_ms} ms`)
    if (failure !== undefined) throw new BrokenAnswer(`the answer broke off: ${messageOf(failure)}`)
    if (parts.size > MAX_ANSWER) {
      throw new NexusError('UNSUPPORTED', `the answer is larger than ${MAX_ANSWER} characters`, { op: 'llm.request' })
    }
    if (parts.finishReason === undefined) throw new BrokenAnswer('the answer ended before it was complete')
  }

  #cost({ prompt_tokens: prompt, completion_tokens: completion }: OpenAI.CompletionUsage): number | undefined {
    const { prices } = this.#options
    if (prices === undefined) return undefined
    return (prompt * prices.prompt_usd_per_million + completion * prices.completion_usd_per_million) / 1_000_000
  }
}

/** A stream that was cut, stalled, or held what is no answer. */
class BrokenAnswer extends Error {}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

async function newClient(options: OpenAiOptions): Promise<OpenAI> {
  // Loaded by the first request: a program that never asks pays nothing.
  const { OpenAI: Client } = await import('openai')
  return new Client({
    baseURL: options.base_url,
    // The library takes what is missing from the environment, which belongs to somebody else perhaps.
    apiKey: options.api_key === '' ? 'none' : options.api_key,
    adminAPIKey: null,
    organization: null,
    project: null,
    defaultHeaders: options.headers,
    timeout: options.timeout_ms,
    maxRetries: options.max_retries,
    logLevel: 'off',
  })
}

/** Aborts what waits for the next piece of a stream for too long. */
class IdleTimer {
  readonly signal: AbortSignal
  readonly #late = new AbortController()
  readonly #limitMs: number
  #timer: NodeJS.Timeout | undefined

  constructor(limitMs: number, signal: AbortSignal) {
    this.#limitMs = limitMs
    this.signal = AbortSignal.any([signal, this.#late.signal])
  }

  get isLate(): boolean {
    return this.#late.signal.aborted
  }

  restart(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#late.abort(), this.#limitMs)
  }

  stop(): void {
    clearTimeout(this.#timer)
  }
}

function pause(durationMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer)
      reject(signal.reason as Error)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop)
      resolve()
    }, durationMs)
    signal.addEventListener('abort', stop, { once: true })
  })
}
