/**
 * Works through items in order, several at a time, each lane with something of its own.
 *
 * @returns results in the order of the items
 */
export async function inLanes<Lane, Item, Result>(
  lanes: readonly Lane[],
  items: readonly Item[],
  work: (item: Item, lane: Lane) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  let next = 0
  await Promise.all(
    lanes.map(async (lane) => {
      for (let at = next++; at < items.length; at = next++) results[at] = await work(items[at] as Item, lane)
    }),
  )
  return results
}
