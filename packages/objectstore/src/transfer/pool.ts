import { setMaxListeners } from 'node:events'

/**
 * Runs `fn` over the items, at most `limit` at a time, started in order. The first failure stops new starts, aborts the
 * signal the running ones were given, waits for them, and is thrown. Nothing of it runs on after the promise settled.
 *
 * @param limit at least 1
 * @param signal fires: no new starts, the running ones are aborted and awaited, and `signal.reason` is thrown
 */
export async function forEachBounded<T>(
  items: Iterable<T> | AsyncIterable<T>,
  limit: number,
  fn: (item: T, index: number, signal: AbortSignal) => unknown,
  signal?: AbortSignal,
): Promise<void> {
  if (!Number.isInteger(limit) || limit < 1) throw new RangeError(`limit must be a whole number from 1, not ${limit}`)
  signal?.throwIfAborted()
  const abort = new AbortController()
  // Every running item may listen, and a limit above ten is no leak.
  setMaxListeners(0, abort.signal)
  let failure: { error: unknown } | undefined
  const stop = (error: unknown): void => {
    if (failure !== undefined) return
    failure = { error }
    abort.abort(error)
  }
  const onAbort = (): void => stop(signal?.reason)
  signal?.addEventListener('abort', onAbort, { once: true })

  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]()
  let started = 0
  let done = false
  const work = async (): Promise<void> => {
    while (!abort.signal.aborted && !done) {
      const next = await iterator.next()
      if (next.done === true) done = true
      else if (!abort.signal.aborted) await fn(next.value, started++, abort.signal)
    }
  }
  const worker = (): Promise<void> => work().catch(stop)
  try {
    const first = worker()
    const rest = Array.isArray(items) ? Math.min(limit, items.length) - 1 : limit - 1
    await Promise.all([first, ...Array.from({ length: Math.max(rest, 0) }, worker)])
  } finally {
    signal?.removeEventListener('abort', onAbort)
    if (!done) await iterator.return?.()
  }
  if (failure !== undefined) throw failure.error
}
