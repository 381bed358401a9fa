const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const WHOLE = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/
const PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g

/**
 * Reads a duration: `30d`, `12h`, `5m`, `10s`, `250ms`, sums such as `1h30m`, and a bare `0`.
 *
 * @returns whole milliseconds, or undefined when it isn't one
 */
export function parseDuration(text: string): number | undefined {
  const trimmed = text.trim()
  if (trimmed === '0') return 0
  if (!WHOLE.test(trimmed)) return undefined
  let totalMs = 0
  for (const [, amount, unit] of trimmed.matchAll(PART)) totalMs += Number(amount) * (UNIT_MS[unit as string] as number)
  return Number.isSafeInteger(Math.round(totalMs)) ? Math.round(totalMs) : undefined
}
