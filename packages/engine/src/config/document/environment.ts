/** Where `${NAME}` is looked up. */
export type Environment = Readonly<Record<string, string | undefined>>

/** A string after expansion, or what is wrong with it. */
export type Expansion = { readonly text: string } | { readonly problem: string }

const REFERENCE = /\$\$\{|\$\{([^{}]*)\}|\$\{/g
const BODY = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s

/**
 * Puts environment variables into a string: `${NAME}` is the value of a variable that must be set, `${NAME:-default}` falls
 * back where it is unset or empty, `$${` stands for a literal `${`.
 *
 * @param mayExpand whether a variable may be looked up; a reference to another one stays as it is written
 */
export function expandEnvironment(
  text: string,
  environment: Environment,
  mayExpand: (name: string) => boolean = () => true,
): Expansion {
  let problem: string | undefined
  const expanded = text.replaceAll(REFERENCE, (reference: string, body: string | undefined) => {
    if (reference === '$${') return '${'
    const parsed = body === undefined ? null : BODY.exec(body)
    if (parsed === null) {
      problem ??= 'has a "${" that is no ${NAME} or ${NAME:-default}; write $${ where a literal ${ is meant'
      return ''
    }
    const name = parsed[1] as string
    if (!mayExpand(name)) return reference
    const fallback = parsed[2]
    const value = Object.hasOwn(environment, name) ? environment[name] : undefined
    if (fallback !== undefined) return value === undefined || value === '' ? fallback : value
    if (value === undefined)
      problem ??= `needs the environment variable ${name}, which is not set; set it, or give a default: \${${name}:-...}`
    return value ?? ''
  })
  return problem === undefined ? { text: expanded } : { problem }
}

/** How much of a value in a row is too much to show. */
const TELLING_LENGTH = 6

/** Whether a message shows what a variable gave, or a telling part of it. */
export function showsValue(message: string, value: string): boolean {
  const [shown, secret] = [message.toLowerCase(), value.toLowerCase()]
  const length = Math.min(secret.length, TELLING_LENGTH)
  if (length === 0) return false
  for (let at = 0; at + length <= secret.length; at++) if (shown.includes(secret.slice(at, at + length))) return true
  return false
}
