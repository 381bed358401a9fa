import { isNexusError, NexusError } from '@nexus/errors'
import { untilAborted } from './waiting.ts'

/** Creates of one name at once: a store that looks first and writes then lets several of so many win. */
export const PROBE_CREATES = 8

/** How one conditional create of the probe's name ended; `conflict` is a refusal that passes. */
export type CreateOutcome = 'created' | 'taken' | 'conflict'

/**
 * Lets many create one name at once and demands exactly one winner: stores that speak a vendor's protocol may ignore its
 * conditions. The name is the caller's, and best has the form of a folder placeholder, which listings and hydration leave
 * out, should the probe be killed before the caller removes it.
 *
 * @param create one conditional create of an empty object, made {@link PROBE_CREATES} times at once and once more
 * @throws NexusError `UNSUPPORTED` when the store ignores the condition, `UNAVAILABLE` when it refused every create for a
 *   reason that passes; what `create` throws
 */
export async function probeConditionalCreates(create: () => Promise<CreateOutcome>): Promise<void> {
  const settled = await Promise.allSettled(Array.from({ length: PROBE_CREATES }, create))
  const outcomes = settled.map((each) => {
    if (each.status === 'rejected') throw each.reason
    return each.value
  })
  const created = outcomes.filter((outcome) => outcome === 'created').length
  if (created > 1 || (created === 1 && (await create()) === 'created')) {
    const message = `the store let ${created} of ${PROBE_CREATES} create one name: it ignores the condition`
    throw new NexusError('UNSUPPORTED', message, { op: 'objectstore.putIfAbsent' })
  }
  if (created === 0) {
    const message = 'the store answered every conditional create with a conflict'
    throw new NexusError('UNAVAILABLE', message, { op: 'objectstore.putIfAbsent' })
  }
}

/** Whether stores decide conditional creates. Each is asked once, by the first that needs to know. */
export class CreateVerdicts {
  readonly #verdicts = new Map<string, Promise<void>>()

  /**
   * Resolves when the store was seen to decide them.
   *
   * @param probe asks the store, within a bound of its own: it is shared by all that wait, so no signal of one ends it
   * @throws what `probe` throws: `UNSUPPORTED` for good, anything else until the next call; the signal's reason
   */
  async ensure(store: string, probe: () => Promise<void>, signal: AbortSignal | undefined): Promise<void> {
    let verdict = this.#verdicts.get(store)
    if (verdict === undefined) {
      verdict = probe().catch((error: unknown) => {
        if (!isNexusError(error, 'UNSUPPORTED')) this.#verdicts.delete(store)
        throw error
      })
      this.#verdicts.set(store, verdict)
    }
    // Its caller may have given up by then.
    verdict.catch(() => undefined)
    await untilAborted(verdict, signal)
  }
}
