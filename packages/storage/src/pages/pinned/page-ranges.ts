/** Pages `first` to `first + count - 1`; the first page of a database is 1. */
export interface PageRange {
  readonly first: number
  readonly count: number
}

/** Pages in any order, some of them more than once, as ascending ranges that neither touch nor overlap. */
export function rangesOf(pages: Iterable<number>): PageRange[] {
  const ranges: { first: number; count: number }[] = []
  for (const page of Uint32Array.from(pages).toSorted()) {
    const last = ranges.at(-1)
    if (last === undefined || page > last.first + last.count) ranges.push({ first: page, count: 1 })
    else if (page === last.first + last.count) last.count++
  }
  return ranges
}

/** The pages of several lists, as ascending ranges that neither touch nor overlap. */
export function unionOf(lists: readonly (readonly PageRange[])[]): PageRange[] {
  const union: { first: number; count: number }[] = []
  for (const { first, count } of lists.flat().toSorted((a, b) => a.first - b.first)) {
    const last = union.at(-1)
    if (last === undefined || first > last.first + last.count) union.push({ first, count })
    else last.count = Math.max(last.count, first + count - last.first)
  }
  return union
}

/** The pages that only one of two sizes of a database has; both in pages. */
export function rangesBetween(pageCount: number, otherCount: number): PageRange[] {
  const first = Math.min(pageCount, otherCount) + 1
  const count = Math.abs(pageCount - otherCount)
  return count === 0 ? [] : [{ first, count }]
}
