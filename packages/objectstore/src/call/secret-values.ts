import type { ObjectStoreConfig } from '../config.ts'

// On globalThis, so that what one copy of this package is told, another one hides too.
const VALUES_KEY = Symbol.for('nexus.objectstore.secrets/1')
/** Credentials that are renewed while a process runs push out the oldest. */
const MOST_VALUES = 64
/** A shorter value is found in words that are no secret, and hiding those would leave messages that say nothing. */
const FEWEST_CHARACTERS = 6
/** A longer one is hidden by its first characters: what is looked for is at most this long. */
const MOST_CHARACTERS = 4096

/** Each value with its spellings, oldest first. */
function known(): Map<string, string[]> {
  const holder = globalThis as unknown as Record<symbol, Map<string, string[]> | undefined>
  return (holder[VALUES_KEY] ??= new Map())
}

/**
 * Hides these values in every later error and message of the seam, as they are and as requests and answers spell them:
 * percent-encoded, base64, escaped for JSON and XML. A driver hands over each secret it resolves: secret keys, session
 * tokens, passwords, private keys, account keys. Values of fewer than 6 characters can't be hidden.
 */
export function hideSecrets(...values: readonly (string | undefined)[]): void {
  const table = known()
  for (const value of values) {
    const secret = value?.trim().slice(0, MOST_CHARACTERS) ?? ''
    if (secret.length < FEWEST_CHARACTERS) continue
    table.delete(secret)
    table.set(secret, spellingsOf(secret))
    const oldest = table.keys().next()
    if (table.size > MOST_VALUES && oldest.done !== true) table.delete(oldest.value)
  }
}

/** Hides what a configuration holds of secrets: the user parts of its URLs, and options whose names say so. */
export function hideConfiguredSecrets({ endpoint, options }: ObjectStoreConfig): void {
  hideSecrets(...secretsOfUrl(endpoint))
  for (const [name, value] of Object.entries(options)) {
    if (typeof value !== 'string') continue
    hideSecrets(...secretsOfUrl(value))
    if (/secret|passw|token|connection_string|account_key|access_key|private_key|(?:^|_)sas/.test(name))
      hideSecrets(value)
  }
}

function secretsOfUrl(text: string): string[] {
  if (!URL.canParse(text)) return []
  const { username, password } = new URL(text)
  const decoded = [password, username].map((part) => {
    try {
      return decodeURIComponent(part)
    } catch {
      return part
    }
  })
  const [secret = '', user = ''] = decoded
  return secret === '' ? [user] : [secret, `${user}:${secret}`]
}

/** The text with every known secret replaced. */
export function hideKnownSecrets(text: string, hidden: string): string {
  let clean = text
  for (const spellings of known().values()) {
    for (const spelling of spellings) if (clean.includes(spelling)) clean = clean.replaceAll(spelling, hidden)
  }
  return clean
}

/** How much longer than its limit a text must be looked at, so that no secret is cut in half at the end. */
export function longestSpelling(): number {
  let longest = 0
  for (const spellings of known().values()) for (const { length } of spellings) longest = Math.max(longest, length)
  return longest
}

function spellingsOf(secret: string): string[] {
  const percent = encodeURIComponent(secret)
  const json = JSON.stringify(secret).slice(1, -1)
  const xml = secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  const base64 = Buffer.from(secret)
  // Longest first, or a shorter one leaves the rest of it standing.
  return [
    ...new Set([
      secret,
      percent,
      percent.replaceAll(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
      percent.replaceAll('%20', '+'),
      json,
      json.replaceAll('/', '\\/'),
      xml,
      xml.replaceAll('"', '&quot;').replaceAll("'", '&apos;'),
      xml.replaceAll('"', '&quot;').replaceAll("'", '&#39;'),
      base64.toString('base64').replaceAll('=', ''),
      base64.toString('base64url'),
    ]),
  ].toSorted((a, b) => b.length - a.length)
}
