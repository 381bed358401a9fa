/** The candidate that a mistyped name most likely meant, or undefined when none is near. */
export function nearName(name: string, candidates: Iterable<string>): string | undefined {
  const wanted = fold(name)
  let best: string | undefined
  // One slip in short names, one in three letters otherwise: more would turn any word into any other.
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1
  for (const candidate of candidates) {
    const distance = editDistance(wanted, fold(candidate), bestDistance)
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

function fold(name: string): string {
  return name.toLowerCase().replaceAll(/[-_ ]/g, '_')
}

/** Insertions, deletions, replacements and swaps of neighbours, counted up to `limit`. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit
  let beforePrevious: number[] = []
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let cost = Math.min(at(previous, j) + 1, at(row, j - 1) + 1, at(previous, j - 1) + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, at(beforePrevious, j - 2) + 1)
      }
      row.push(cost)
    }
    beforePrevious = previous
    previous = row
  }
  return Math.min(at(previous, b.length), limit)
}

function at(row: readonly number[], index: number): number {
  return row[index] as number
}
