import * as v from 'valibot'

const whole = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(2 ** 31 - 1))
const price = v.pipe(v.number(), v.minValue(0))

/** The block of `nexus.llm.openai_compatible`. */
export interface OpenAiOptions {
  base_url: string
  api_key: string
  model: string
  parameters: Record<string, unknown>
  headers: Record<string, string>
  roles?: string[] | undefined
  stream: boolean
  timeout_ms: number
  idle_timeout_ms: number
  max_retries: number
  prices?: { prompt_usd_per_million: number; completion_usd_per_million: number } | undefined
}

export const openAiOptions: v.GenericSchema<unknown, OpenAiOptions> = v.strictObject({
  /** Where the API is, with its version. */
  base_url: v.optional(
    v.pipe(
      v.string(),
      v.check((text) => URL.canParse(text) && /^https?:/.test(text), 'must be an http or https URL'),
    ),
    'https://api.openai.com/v1',
  ),
  /** Name a variable here (`${OPENAI_API_KEY}`), never the key itself: the configuration is kept in the session. */
  api_key: v.optional(v.string(), ''),
  /** The model for requests that name none. */
  model: v.pipe(v.string(), v.minLength(1, 'name a model')),
  /** Further fields of the request, such as `temperature`. */
  parameters: v.optional(v.record(v.string(), v.unknown()), {}),
  headers: v.optional(v.record(v.string(), v.string()), {}),
  /** The roles of requests that it answers; absent: all. */
  roles: v.optional(v.array(v.string())),
  stream: v.optional(v.boolean(), true),
  /** How long the beginning of an answer may take; of an answer in one piece, all of it. */
  timeout_ms: v.optional(whole, 60_000),
  /** How long a streamed answer may pause. */
  idle_timeout_ms: v.optional(whole, 60_000),
  /** How often a request is sent again that met an outage or a limit, or whose answer broke off. */
  max_retries: v.optional(v.pipe(whole, v.maxValue(20)), 3),
  /** For `cost_usd`; absent: it is not told. */
  prices: v.optional(v.strictObject({ prompt_usd_per_million: price, completion_usd_per_million: price })),
})
