import type { Plugin, PluginContext, PluginStorage, VetoOutcome } from '@nexus/engine'
import * as v from 'valibot'

const tokens = v.pipe(v.number(), v.integer(), v.minValue(0))
const schema = v.strictObject({
  /** What the session may use in all; absent: no limit. */
  session_tokens: v.optional(tokens),
  /** What all sessions of a tenant may use together, on all hosts that share the app scope. */
  tenant: v.optional(v.strictObject({ id: v.pipe(v.string(), v.minLength(1)), tokens })),
})
type Config = v.InferOutput<typeof schema>

/** On `before:io.input`: before the loop's gate, so that the reason is the one that stays. */
const INPUT_PRIORITY = 50
const REQUEST_PRIORITY = 50

const SCHEMA = `CREATE TABLE IF NOT EXISTS usage (
  tenant TEXT NOT NULL, session_id TEXT NOT NULL, tokens INTEGER NOT NULL, PRIMARY KEY (tenant, session_id)
) WITHOUT ROWID`

/**
 * `nexus.gate.token_budget`: refuses inputs and requests to models once the session, or its tenant, has used up its tokens.
 * The request that goes over the limit is still answered: what it costs is known afterwards.
 *
 * @see docs/guides/standard-plugins.md
 */
export function tokenBudget(): Plugin {
  const plugin: Plugin<Config> = {
    id: 'nexus.gate.token_budget',
    name: 'Token budget',
    version: '1.0.0',
    configSchema: schema,
    init(context) {
      const budget = new TokenBudget(context)
      context.bus.subscribe('before:io.input', () => budget.verdict(), { priority: INPUT_PRIORITY })
      context.bus.subscribe('before:llm.request', () => budget.verdict(), { priority: REQUEST_PRIORITY })
    },
  }
  return plugin
}

class TokenBudget {
  readonly #context: PluginContext<Config>
  readonly #usage: PluginStorage | undefined

  constructor(context: PluginContext<Config>) {
    this.#context = context
    if (context.config.tenant === undefined) return
    this.#usage = context.storage('app')
    this.#usage.db.exec(SCHEMA)
    this.#note()
    // The engine's own handler came first: the session's total holds this answer already.
    context.bus.subscribe('llm.response', () => this.#note())
  }

  verdict(): VetoOutcome | undefined {
    const { session, config } = this.#context
    const { session_tokens: limit, tenant } = config
    const used = session.meta().tokensUsed
    if (limit !== undefined && used >= limit) {
      return { vetoed: true, reason: `the session has used ${used} of its ${limit} tokens` }
    }
    if (tenant === undefined) return undefined
    const usedByTenant = this.#usedBy(tenant.id)
    if (usedByTenant < tenant.tokens) return undefined
    return { vetoed: true, reason: `tenant ${tenant.id} has used ${usedByTenant} of its ${tenant.tokens} tokens` }
  }

  /**
   * A row for each session holds what that session has used in all, and not what was added: written twice it counts once,
   * and a run that was killed before the row was stored makes up for it when the session is resumed.
   */
  #note(): void {
    const { session, config } = this.#context
    this.#usage?.db
      .prepare('INSERT INTO usage VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET tokens = excluded.tokens')
      .run(config.tenant?.id, session.id, session.meta().tokensUsed)
  }

  #usedBy(tenant: string): number {
    const query = 'SELECT coalesce(sum(tokens), 0) FROM usage WHERE tenant = ?'
    return this.#usage?.db.prepare<[string], number>(query).pluck().get(tenant) ?? 0
  }
}
