/**
 * A named place where a test may throw, wait or kill the process. Awaited where the caller is asynchronous.
 *
 * @param name `area:step`, e.g. `snapshot:before-manifest`
 */
export type Failpoint<Name extends string = string> = (name: Name) => void | Promise<void>

/** {@link Failpoint} for code that works synchronously and can't wait. */
export type SyncFailpoint<Name extends string = string> = (name: Name) => void

/** What production code runs with. */
export const noFailpoint: (name: string) => undefined = () => undefined
