/** What every operation accepts besides its arguments. */
export interface OpOptions {
  /**
   * Fires when the caller no longer wants the result. The call stops work and rejects; with what is the driver's choice,
   * because `ObjectStore` gives its caller the signal's own reason.
   */
  signal?: AbortSignal
  /**
   * Called as bytes move, with totals of this call: at least once per finished object and per 8 MiB, and in an upload once
   * the last byte is handed over. `ObjectStore` ends a call that falls behind the slowest accepted rate, so a driver that
   * reports is judged by what it moves; one that never does, by the clock. `list` reports what it has listed as objects; a
   * `hydrate` reports only what has arrived, nothing of its listing.
   */
  onProgress?: (progress: Progress) => void
  /**
   * Called when the call begins to wait for its turn inside the driver (a slot, a share of memory, a pause that the store
   * asked for); what it returns is called when the wait is over. The time between counts against no limit. A call that
   * moves several pieces at a time waits only while all of them do: see `SharedWait`.
   */
  onWait?: () => () => void
}

/** Totals of one call so far. They never go back: `monotonicProgress` keeps them through attempts that begin again. */
export interface Progress {
  /** Whole objects finished. */
  objects: number
  /** Bytes moved, those of unfinished objects included. */
  bytes: number
  /** Bytes moved a second time by attempts that began again. They are in no other total, and show that the call is alive. */
  repeatedBytes?: number
}

/** One listed object. */
export interface ObjectInfo {
  /** The full store-relative key: what `put` was given. */
  key: string
  /** Stored bytes, at least 0. */
  size: number
  modTime?: Date
}

/** A byte range of one object. `length` beyond the end is cut; an `offset` beyond the end is an empty file. */
export interface ByteRange {
  /** First byte, default 0. */
  offset?: number
  /** Bytes to take, default: to the end. */
  length?: number
}

/**
 * What a driver's error means for the caller; see {@link Backend.classify}.
 *
 * - `temporary` an outage, a timeout, a conflict that passes: the same call may succeed later. Of a `putIfAbsent` it also says
 *   that nothing was created
 * - `throttled` too many requests, or too many writes of one name
 * - `permission` credentials are missing, expired or not enough
 * - `not-found` *the object* does not exist. A missing bucket is `permanent`: taking it for a missing object would read an
 *   unmounted or mistyped store as one that has never seen the session
 * - `permanent` the store will refuse this call until something is mended
 */
export type ErrorClass = 'temporary' | 'permanent' | 'permission' | 'not-found' | 'throttled'

/**
 * What a driver implements: a lifecycle interface, not a file system. The engine reads and writes ordinary local files
 * and calls these five methods at a few lifecycle points only. The interface never grows: whatever else a store is
 * good for is an optional method, and having it is the declaration.
 *
 * Guarantees the caller gives: every call is safe to make concurrently with any other; `signal` is always set by
 * `ObjectStore`; a file handed to `put` may grow while it is read, but is not replaced underneath.
 *
 * Obligations of the driver: reject a malformed key or prefix with `InvalidKeyError` before touching the store or the
 * disk (`validateKey`, `validateKeyPrefix`), and a well-formed one that this store can't hold with the same error; move
 * bytes by streaming; retry what is safe to retry until `signal` fires; never make the bucket.
 *
 * Who throws what: a driver throws what its SDK throws and says in `classify` what that means. `ObjectStore` turns it into
 * one `NexusError`: a `get` whose error is `not-found` is `ObjectNotFoundError`, a call whose signal has fired rejects with
 * the signal's reason, and a `putIfAbsent` whose error nothing explains is `OUTCOME_UNKNOWN`. A driver that knows better
 * throws a `NexusError` itself, which passes as it is.
 *
 * @see docs/guides/writing-a-backend.md
 */
export interface Backend {
  /**
   * Downloads every object under `keyPrefix` (whole segments) into `destDir`, prefix stripped. Adds and overwrites, never
   * deletes. An empty prefix gives an empty directory. A key that breaks the rules, or two that exclude each other as
   * paths, fail the call and are named; nothing is ever written outside `destDir`. `hydrateObjects` does all of it over
   * a listing and a download.
   */
  hydrate(keyPrefix: string, destDir: string, options?: OpOptions): Promise<void>
  /**
   * Stores the file's first `size` bytes, size taken at open, as the whole new content of `key`; `openSnapshot` reads a
   * file so. A failure leaves no partial or empty object and the local file is never touched.
   */
  put(key: string, localPath: string, options?: OpOptions): Promise<void>
  /** Removes the object; a missing one is a success. */
  delete(key: string, options?: OpOptions): Promise<void>
  /**
   * Every object under the prefix, whatever the store's page size, in no promised order. A missing bucket, a refusal or an
   * outage rejects: an empty answer says that the store holds nothing there.
   */
  list(keyPrefix: string, options?: OpOptions): Promise<ObjectInfo[]>
  /** Resolves when every earlier `put` and `delete` is durable. May be called again. */
  flush(options?: OpOptions): Promise<void>

  /**
   * Optional. Names bucket and prefix, the same in every process: what a machine remembers of one store is not applied to
   * another. Needed only by a backend that a program hands over itself; one that is opened by name is known by its
   * configuration. Never a credential.
   */
  readonly identity?: string
  /** Optional. Releases sockets, workers and handles. Called once, last. */
  close?(): Promise<void>
  /**
   * Optional. Creates the object only if the key is free, decided by the store: true means created, false means that it
   * existed. One attempt, no silent retry: a second one would be told "exists" about the first one's own object. A lost
   * answer, and a 5xx that doesn't say that nothing was done, is classified as nothing (`undefined`), which is
   * `OUTCOME_UNKNOWN`; a store that answers "conflict, try again" (409) or "slow down" refused: temporary or throttled.
   */
  putIfAbsent?(key: string, localPath: string, options?: OpOptions): Promise<boolean>
  /**
   * Optional. Writes one object, or a range of it, to `localPath`, through a temporary file (`replaceFile`): a failure
   * leaves an existing local file as it was. The caller guarantees that the directory exists. A missing object is
   * `not-found`, or `ObjectNotFoundError`.
   */
  get?(key: string, localPath: string, options?: OpOptions & ByteRange): Promise<void>
  /**
   * Optional. The names one level below a prefix, by the store's delimiter: first segments of the keys under it, each once,
   * whether an object or more names are there, in no promised order.
   */
  listNames?(keyPrefix: string, options?: OpOptions): Promise<string[]>
  /**
   * Optional. What an error this driver threw means; undefined when it can't tell, which is taken for an outage. Never
   * throws, whatever it is given.
   */
  classify?(error: unknown): ErrorClass | undefined
}
