import type { Slices } from './slices.ts'

const RUN = 1000

/** Calls `visit` for each item, and lets the event loop run in between. */
export async function forEachSliced<T>(items: Iterable<T>, slices: Slices, visit: (item: T) => void): Promise<void> {
  for (const item of items) {
    if (slices.due) await slices.pause()
    visit(item)
  }
}

/** The strings in the order of their code units: what `toSorted` does, in slices. Sorting hundreds of thousands at once stalls. */
export async function sortSliced(strings: Iterable<string>, slices: Slices): Promise<string[]> {
  let from: string[] = []
  await forEachSliced(strings, slices, (each) => void from.push(each))
  for (let at = 0; at < from.length; at += RUN) {
    if (slices.due) await slices.pause()
    for (const [index, value] of from
      .slice(at, at + RUN)
      .toSorted()
      .entries())
      from[at + index] = value
  }
  for (let width = RUN; width < from.length; width *= 2) {
    const to: string[] = []
    for (let at = 0; at < from.length; at += 2 * width) {
      const middle = Math.min(at + width, from.length)
      const end = Math.min(at + 2 * width, from.length)
      for (let left = at, right = middle; left < middle || right < end;) {
        if (slices.due) await slices.pause()
        const [a, b] = [from[left] as string, from[right] as string]
        if (right >= end || (left < middle && a <= b)) left = to.push(a) && left + 1
        else right = to.push(b) && right + 1
      }
    }
    from = to
  }
  return from
}
