import { durabilityFile, durabilityTest, unitTest, type WrittenMutant } from './mutant.ts'

/** What a snapshot uploads, skips and names. */
export const snapshotMutants: readonly WrittenMutant[] = [
  {
    id: 'skip-without-listing',
    breaks: 'skips a file that never changes although the listing does not show it at its size',
    find: `if (this.#sizes?.get(path) !== stat.size) return false`,
    replace: `if (this.#sizes === undefined) return false`,
    tests: [
      unitTest('snapshot', 'are skipped when the listing shows the blob at its size'),
      unitTest('snapshot', 'are uploaded again when the stored one'),
    ],
  },
  {
    id: 'segment-trusted-by-size',
    breaks: 'skips a sealed segment or metadata whose size fits, whatever its digest',
    find: `else if (committed?.size === stat.size && committed.sha256 === sha256 && !this.#options.memory.isUnsettled(path))`,
    replace: `else if (committed?.size === stat.size)`,
    tests: [
      unitTest('snapshot', 'is uploaded again when it changed at the same size between two snapshots'),
      unitTest('snapshot', 'are uploaded when metadata has changed at the same size'),
    ],
  },
  {
    id: 'failed-snapshot-forgotten',
    breaks: 'trusts committed digests of objects that a failed snapshot may have overwritten',
    find: `memory.noteUpload(path)`,
    replace: `void memory`,
    tests: [unitTest('snapshot', 'that a failed snapshot may have overwritten are not trusted')],
  },
  {
    id: 'no-order-of-uploads',
    breaks: 'overwrites committed objects before new ones are stored',
    find: `= [[0, 1], [2, 3], [4]]`,
    replace: `= [[0, 1, 2, 3, 4].toReversed()]`,
    tests: [
      durabilityTest('proof-upload-order', 'no committed object is overwritten while a new one is still on its way'),
    ],
  },
  {
    id: 'listing-outage-ignored',
    breaks: 'takes a listing that fails for the moment for a store that can not list',
    find: `if (isPassing(error)) throw error`,
    replace: `void isPassing`,
    tests: [unitTest('snapshot', 'wait for a store whose listing fails for the moment')],
  },
  {
    id: 'change-during-upload-ignored',
    breaks:
      'takes the digest of a large file that changed, without a trace in its times, between hashing and storing it',
    find: `if (after.sha256 === sha256 && after.bytes === before.size)`,
    replace: `if (after.bytes === before.size)`,
    tests: [unitTest('upload', 'without any trace in its times is copied, too')],
  },
  {
    id: 'unstored-dropped',
    breaks: 'drops the committed version of a file that can not be stored now, and of blobs that were evicted',
    find: `if (!(evicted || isUnstorable(path)) || !isFree(path)) continue`,
    replace: `if (evicted || isUnstorable(path) || !isFree(path)) continue`,
    tests: [
      unitTest('snapshot', 'keeps its committed version named'),
      unitTest('snapshot', 'that were evicted here stay named'),
    ],
  },
  {
    id: 'lock-crosses',
    breaks: 'stores the session lock with the tree',
    find: `(name === LOCK_FILE || name === SESSION_RECORD_PATH`,
    replace: `(name === SESSION_RECORD_PATH`,
    tests: [unitTest('snapshot', 'keeps what never crosses here')],
  },
  {
    id: 'links-followed',
    breaks: 'stores what a link points to',
    find: `return this.#fs.lstatSync(this.#absolute(path), { bigint: true, throwIfNoEntry: false })`,
    replace: `return nodeFs.statSync(this.#absolute(path), { bigint: true, throwIfNoEntry: false })`,
    tests: [unitTest('snapshot', 'uploads no byte of what a link points to')],
  },
  {
    id: 'tree-looked-at-once',
    breaks: 'never looks again at directories that changed while they were walked',
    find: `await this.#settle(MAX_LOOKS - 1)`,
    replace: `void MAX_LOOKS`,
    tests: [unitTest('tree-walk', 'loses neither name of a file that moves')],
  },
  {
    id: 'database-copied-raw',
    breaks: 'stores databases of the run as they lie on the disk, without their write-ahead log',
    find: `staged(path, copy.snapshotPath, copy.sizeBytes, copy.livePath)`,
    replace: `staged(path, copy.livePath, copy.sizeBytes, copy.livePath)`,
    tests: [
      durabilityTest('proof-database-copy', 'a row that a long-lived reader keeps out of the main database file'),
    ],
  },
  {
    id: 'request-joins-running',
    breaks: 'lets a request share a snapshot that has already walked the tree',
    find: `const batch = (this.#next ??= openBatch<Request, Outcome>())`,
    replace: `const batch = this.#running ?? (this.#next ??= openBatch<Request, Outcome>())`,
    tests: [
      unitTest('snapshot-slot', 'lets requests that arrive while one runs share the next, and never the running one'),
    ],
  },
  {
    id: 'slot-held-while-announcing',
    breaks:
      'announces a result before the slot is free, so that a handler of it that asks for a snapshot waits for itself',
    find: `const outcome = await this.#work.run(batch.requests).finally(() => this.#free())
      await this.#work.announce(outcome)`,
    replace: `const outcome = await this.#work.run(batch.requests)
      await this.#work.announce(outcome)
      this.#free()`,
    tests: [unitTest('snapshot-slot', 'a handler of the result can ask again and wait for it')],
  },
  {
    id: 'replaced-place-committed',
    breaks: 'commits what took the place of a file or a directory of the engine',
    file: durabilityFile('store-tree'),
    find: `setAsideReplaced(tree, { committed, staged: parts.files, lost: parts.lostDatabases, cursor })`,
    replace: `void setAsideReplaced`,
    tests: [durabilityTest('replaced-places', 'no commit that hides what was committed')],
  },
  {
    id: 'replaced-journal-committed',
    breaks: 'commits a session whose journal lies behind a link, or has no header',
    find: `if (found !== undefined && (found.size > 0n || path !== JOURNAL_HEADER_PATH)) continue`,
    replace: `if (path !== '' || found === undefined) continue`,
    tests: [durabilityTest('replaced-places', 'no commit that hides what was committed')],
  },
  {
    id: 'exhaustion-unstored',
    breaks: 'takes a machine that has run out of descriptors for a file that can not be read',
    file: 'packages/host/src/walk/file-fault.ts',
    find: `if (UNREADABLE.has(code)) return`,
    replace: `if (UNREADABLE.has(code) || code !== '') return`,
    tests: [
      unitTest('tree-walk', 'fails the walk, wherever'),
      unitTest('upload', 'is nothing of the file when the machine'),
    ],
  },
  {
    id: 'engine-file-through-link',
    breaks: 'lets a link inside the session lead a write to a file of the engine',
    file: 'packages/engine/src/session/files/tree-files.ts',
    find: `const refused = refusal(named.relPath) !== undefined`,
    replace: `const refused = false`,
    tests: [
      { file: 'packages/engine/src/session/workspace.test.ts', name: 'can not be reached through a link inside' },
    ],
  },
  {
    id: 'record-swallowed',
    breaks: 'appends to the line of a record that lacks its newline',
    file: 'packages/engine/src/session/files/tree-files.ts',
    find: `return newline ? Buffer.concat([Buffer.of(NEWLINE), bytes]) : bytes`,
    replace: `return bytes`,
    tests: [{ file: 'packages/engine/src/session/files/last-record.test.ts', name: 'begins a line of its own' }],
  },
]
