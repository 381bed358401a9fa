/**
 * A named place where a test may throw, wait or kill the process. Awaited where the caller is asynchronous.
 *
 * @param name `area:step`, e.g. `snapshot:before-manifest`
 */
export type Failpoint = (name: string) => void | Promise<void>

/** What production code runs with. */
export const noFailpoint: Failpoint = () => undefined
