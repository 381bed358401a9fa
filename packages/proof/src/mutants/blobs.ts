import { durabilityFile, unitTest, type Mutant } from './mutant.ts'

/** Blobs that go ahead of their turn, leave the local disk, and come back. */
export const blobMutants: readonly Mutant[] = [
  {
    id: 'abandoned-blobs-uploaded',
    breaks: 'goes on uploading blobs of a run that was abandoned',
    file: durabilityFile('session-ending'),
    find: `fence.fall(this.closedError('was abandoned'))
    this.#parts.blobs.close()`,
    replace: '',
    tests: [unitTest('session-blobs', 'are drained by a stop, and dropped by an abandon')],
  },
  {
    id: 'uncommitted-blob-evicted',
    breaks: 'evicts a blob that no commit names',
    file: durabilityFile('session-blobs'),
    find: `canEvict: (sha256) => committed.names(blobPaths(sha256).bin),`,
    replace: `canEvict: () => true,`,
    tests: [unitTest('session-blobs', 'are evicted only when a commit names them')],
  },
  {
    id: 'blob-digest-unchecked',
    breaks: 'takes whatever the store gives for a blob that was evicted',
    file: durabilityFile('blob-repair'),
    find: `if (found !== sha256) {`,
    replace: `if (found === undefined) {`,
    tests: [unitTest('blob-repair', 'refuses bytes that do not have the digest')],
  },
]
