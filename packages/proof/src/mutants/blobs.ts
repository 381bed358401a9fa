import { unitTest, type WrittenMutant } from './mutant.ts'

/** Blobs that go ahead of their turn, leave the local disk, and come back. */
export const blobMutants: readonly WrittenMutant[] = [
  {
    id: 'abandoned-blobs-uploaded',
    breaks: 'goes on uploading blobs of a run that was abandoned',
    find: `fence.fall(this.closedError('was abandoned'))
    this.#parts.blobs.close()`,
    replace: '',
    tests: [unitTest('session-blobs', 'are drained by a stop, and dropped by an abandon')],
  },
  {
    id: 'uncommitted-blob-evicted',
    breaks: 'evicts a blob that no commit names',
    find: `canEvict: (sha256) => committed.names(blobPaths(sha256).bin),`,
    replace: `canEvict: () => true,`,
    tests: [unitTest('session-blobs', 'are evicted only when a commit names them')],
  },
  {
    id: 'blob-digest-unchecked',
    breaks: 'takes whatever the store gives for a blob that was evicted',
    find: `if (found !== sha256) {`,
    replace: `if (found === undefined) {`,
    tests: [unitTest('blob-repair', 'refuses bytes that do not have the digest')],
  },
]
