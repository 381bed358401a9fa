import { randomBytes } from 'node:crypto'

/** How a token came about. */
export type TokenSource = 'metadata' | 'service_account' | 'authorized_user'

/** One issued token. */
export interface IssuedToken {
  token: string
  source: TokenSource
  expiresAtMs: number
  revoked: boolean
}

/** Issues access tokens and knows which are still good. */
export class TokenIssuer {
  readonly #now: () => number
  readonly #issued = new Map<string, IssuedToken>()
  lifetimeMs: number

  constructor(now: () => number, lifetimeMs: number) {
    this.#now = now
    this.lifetimeMs = lifetimeMs
  }

  /** Every token so far, oldest first. */
  get issued(): readonly IssuedToken[] {
    return [...this.#issued.values()]
  }

  /** The answer of the token endpoint. */
  issue(source: TokenSource): { access_token: string; expires_in: number; token_type: 'Bearer' } {
    const token = `ya29.emulated-${randomBytes(16).toString('hex')}`
    this.#issued.set(token, { token, source, expiresAtMs: this.#now() + this.lifetimeMs, revoked: false })
    return { access_token: token, expires_in: Math.floor(this.lifetimeMs / 1000), token_type: 'Bearer' }
  }

  isGood(token: string | undefined): boolean {
    const known = token === undefined ? undefined : this.#issued.get(token)
    return known !== undefined && !known.revoked && known.expiresAtMs > this.#now()
  }

  /** Ends every token that was issued. */
  revokeAll(): void {
    for (const each of this.#issued.values()) each.revoked = true
  }
}
