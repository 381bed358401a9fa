const HIDDEN = '[redacted]'

// Each pattern keeps its first group, which says what was hidden. URLs come first: a signed URL carries its secret in
// the query, an authenticated proxy in the user part.
const SECRETS: readonly [RegExp, string][] = [
  [/\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@"'<>]*@/gi, `$1${HIDDEN}@`],
  [/\b(https?:\/\/[^\s?"'<>]+)\?[^\s"'<>]+/gi, `$1?${HIDDEN}`],
  [/\b((?:proxy-)?authorization["']?\s*[:=]\s*["']?)[^\r\n"',}]+(?:,\s*\w+=[^\s,"'}]+)*/gi, `$1${HIDDEN}`],
  [/\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}/gi, `$1${HIDDEN}`],
  [/\b(AWS4-HMAC-SHA256)\s+[^\r\n"'}]+/g, `$1 ${HIDDEN}`],
  [/\b((?:A3T[A-Z0-9]|AKIA|ASIA|AROA|AIDA|ABIA|ACCA))[A-Z0-9]{12,}\b/g, `$1${HIDDEN}`],
  [/\b(GOOG1?)[A-Z0-9]{18,}\b/g, `$1${HIDDEN}`],
  [/\b(ya29\.)[\w-]+/g, `$1${HIDDEN}`],
  [/\b(eyJ)[\w-]{8,}\.[\w-]+\.[\w-]*/g, `$1${HIDDEN}`],
  [/(-----BEGIN [A-Z ]*PRIVATE KEY-----)[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, `$1${HIDDEN}`],
  [
    /\b((?:aws[_-]?)?(?:secret[_-]?access[_-]?key|session[_-]?token|security[_-]?token|access[_-]?key[_-]?id|secret|password|passwd|private[_-]?key|refresh[_-]?token|access[_-]?token|client[_-]?secret|api[_-]?key|signature)["']?\s*[:=]\s*["']?)[^\s"',;&<>]+/gi,
    `$1${HIDDEN}`,
  ],
  [
    /(<(?:AWSAccessKeyId|SecretAccessKey|SessionToken|Signature|SignatureProvided|StringToSign|StringToSignBytes|CanonicalRequest|CanonicalRequestBytes)>)[^<]*/gi,
    `$1${HIDDEN}`,
  ],
]

/**
 * The text with everything that looks like a credential replaced: access keys, signatures, tokens, private keys, the user
 * part and the query of URLs. Vendors put such things into error messages, and messages end up in logs.
 */
export function redactSecrets(text: string): string {
  let clean = text
  for (const [pattern, replacement] of SECRETS) clean = clean.replace(pattern, replacement)
  return clean
}

const MAX_CAUSES = 8

/**
 * Redacts the messages and stacks of an error and of its causes in place, so that a logger that prints the cause chain
 * leaks nothing either. Errors that can't be written to are left as they are.
 */
export function redactError(error: unknown): void {
  let current = error
  for (let depth = 0; depth < MAX_CAUSES && current instanceof Error; depth++) {
    redactProperty(current, 'message')
    redactProperty(current, 'stack')
    current = current.cause
  }
}

function redactProperty(error: Error, name: 'message' | 'stack'): void {
  const text = error[name]
  if (typeof text !== 'string') return
  const clean = redactSecrets(text)
  if (clean === text) return
  try {
    error[name] = clean
  } catch {
    // A frozen error: the wrapper's own message is clean all the same.
  }
}
