/** What a child process of the memory bench does. */
export interface LargeFileJob {
  kind: 'put' | 'snapshot' | 'hydrate'
  /** Bytes of the file. */
  sizeBytes: number
  /** A fresh directory for the blobs or for the engine. */
  dir: string
  /** The file to put. */
  path: string
  /** The store, shared by snapshot and hydration. */
  bucket: string
  /** The session to hydrate. */
  sessionId: string
  /** Where the snapshot leaves the id of its session. */
  sessionIdFile: string
}
