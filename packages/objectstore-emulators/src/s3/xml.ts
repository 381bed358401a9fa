/** Text inside an element. Characters that XML 1.0 has no way to write are written as references all the same, as S3 does. */
export function escapeXml(text: string): string {
  return text.replaceAll(/[&<>"\p{Cc}]/gu, (character) => `&#x${character.charCodeAt(0).toString(16)};`)
}

/** The content of each element of that name, without nesting. */
export function elementsOf(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}(?:\\s[^>]*)?>([\\s\\S]*?)</${name}>`, 'g'))].map(
    ([, inner]) => inner ?? '',
  )
}

/** Element text as it was before it was escaped. */
export function unescapeXml(text: string): string {
  const named: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }
  return text.replaceAll(
    /&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi,
    (whole, hex?: string, decimal?: string, name?: string) => {
      if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16))
      if (decimal !== undefined) return String.fromCodePoint(Number(decimal))
      return named[name ?? ''] ?? whole
    },
  )
}

/** A document of answers. */
export function xmlDocument(root: string, inner: string): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n<${root} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${inner}</${root}>`
}
