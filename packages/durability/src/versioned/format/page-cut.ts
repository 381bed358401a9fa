/** What a page has on average, before compression. */
const AIM_BYTES = 16 * 1024

/**
 * Whether a page begins at an entry, by a hash of its key and the bytes it takes: the same tree has the same pages, and what
 * changes in one entry changes no boundary but its own. Heavy entries begin a page more often, so that pages have much the
 * same size.
 *
 * @param bytes of the entry, its key in full
 */
export function beginsPage(key: string, bytes: number): boolean {
  return hashOf(key) < (bytes / AIM_BYTES) * 2 ** 32
}

/** FNV-1a over the code units, then mixed as in MurmurHash3, since FNV leaves its high bits to the last units. */
function hashOf(key: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

/** The shortest text that sorts behind `before` and not behind `first`, whole characters only. */
export function separatorOf(before: string, first: string): string {
  let length = 1
  while (length < first.length && first.slice(0, length) <= before) length++
  const last = first.charCodeAt(length - 1)
  // The first half of a pair has no form in UTF-8.
  return first.slice(0, last >= 0xd800 && last < 0xdc00 ? length + 1 : length)
}
