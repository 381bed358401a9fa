import { randomBytes } from 'node:crypto'

/** Temporary keys as the endpoints hand them out. */
export interface IssuedCredentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken: string
  expiresAtMs: number
}

/** Makes new keys at each call and remembers them. */
export class CredentialIssuer {
  /** How long new keys are good for, in ms; may be changed. */
  lifetimeMs: number
  readonly issued: IssuedCredentials[] = []
  readonly #onIssue: (credentials: IssuedCredentials) => void

  constructor(lifetimeMs: number, onIssue: (credentials: IssuedCredentials) => void) {
    this.lifetimeMs = lifetimeMs
    this.#onIssue = onIssue
  }

  issue(): IssuedCredentials {
    const credentials = {
      accessKeyId: `TEMP${this.issued.length}X${randomBytes(6).toString('hex').toUpperCase()}`,
      secretAccessKey: randomBytes(20).toString('base64url'),
      sessionToken: randomBytes(48).toString('base64'),
      expiresAtMs: Date.now() + this.lifetimeMs,
    }
    this.issued.push(credentials)
    this.#onIssue(credentials)
    return credentials
  }
}

/** The time as AWS writes it, without milliseconds. */
export function awsTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}
