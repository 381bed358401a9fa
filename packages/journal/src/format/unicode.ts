// With the `u` flag a surrogate pair is one code point, so this matches lone surrogates only.
const LONE_SURROGATE = /\p{Surrogate}/gu

/** The text with every lone surrogate replaced by U+FFFD: what UTF-8 can hold and every JSON reader accepts. */
export function toWellFormed(text: string): string {
  return text.replaceAll(LONE_SURROGATE, '\uFFFD')
}
