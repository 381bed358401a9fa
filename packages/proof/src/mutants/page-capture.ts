import type { CatchingTest, WrittenMutant } from './mutant.ts'

const SOURCE = 'packages/storage/src/pages'

/** Others do something between any two steps of a capture. */
const INJECTED: readonly CatchingTest[] = [
  {
    file: 'packages/storage/test/pages/injected-steps.test.ts',
    name: 'whatever others do, each image is what SQLite serializes',
  },
]

function ladderTest(name: string): CatchingTest {
  return { file: 'packages/storage/test/pages/ladder.test.ts', name }
}

/** How a database is read page by page while others write it. */
export const pageCaptureMutants: readonly WrittenMutant[] = [
  {
    id: 'pages-index-read-once',
    breaks: 'takes the state that the index named before the read transaction began for the one that it holds',
    file: `${SOURCE}/pinned/pin.ts`,
    find: `isSameState(before, after)`,
    replace: `isSameState(before, before)`,
    tests: INJECTED,
  },
  {
    id: 'pages-backfill-ignored',
    breaks: 'reads frames of a WAL that is wholly in the file, and may be begun anew under the reader',
    file: `${SOURCE}/pinned/pin.ts`,
    find: `return backfilled === index.lastFrame`,
    replace: `return index.lastFrame < 0 || backfilled < 0`,
    tests: INJECTED,
  },
  {
    id: 'pages-file-only',
    breaks: 'reads the database file alone, whatever the WAL holds',
    file: `${SOURCE}/pinned/pin.ts`,
    find: `return backfilled === index.lastFrame`,
    replace: `return backfilled <= index.lastFrame`,
    tests: INJECTED,
  },
  {
    id: 'pages-without-pin',
    breaks: 'lets the pin go before the next one holds',
    file: `${SOURCE}/pinned/pin.ts`,
    find: `const before = readWalIndex(shm)`,
    replace: `if (this.#holder.inTransaction) this.#holder.exec('ROLLBACK')\n      const before = readWalIndex(shm)`,
    tests: INJECTED,
  },
  {
    id: 'pages-vanish-unnamed',
    breaks: 'does not name the pages by which a database became smaller',
    file: `${SOURCE}/pinned/pinned-database.ts`,
    find: `rangesBetween(before.pageCount, pageCount)`,
    replace: `rangesBetween(pageCount, pageCount)`,
    tests: [ladderTest('names pages that vanished')],
  },
  {
    id: 'pages-locks-looked-at-too-early',
    breaks: 'trusts a pin whose locks went after they were looked at',
    file: `${SOURCE}/captured-database.ts`,
    find: `if (!pinned.isLocked) return`,
    replace: `if (!pinned.isLocked && !pinned.isAtNewest) return`,
    tests: [ladderTest('between the look for them and the read transaction, refuse the increment')],
  },
  {
    id: 'pages-read-without-locks',
    breaks: 'gives out pages that were read while nothing kept them in place',
    file: `${SOURCE}/pinned/pinned-image.ts`,
    find: `if (!areLocked(files, path)) {`,
    replace: `if (files.shm < 0) {`,
    tests: [ladderTest('while pages are read, fail that read')],
  },
  {
    id: 'pages-forgets-unstored-changes',
    breaks: 'names only what changed since the last capture, though that was never stored',
    file: `${SOURCE}/change-log.ts`,
    find: `this.#entries.slice(from + 1)`,
    replace: `this.#entries.slice(-1)`,
    tests: [ladderTest('is the pages of every capture since the one that was stored')],
  },
]
