import { durabilityFile, unitTest, type WrittenMutant } from './mutant.ts'

const STORE = durabilityFile('shared-roots-store')

/** App- and agent-scope stores. */
export const sharedStoreMutants: readonly WrittenMutant[] = [
  {
    id: 'foreign-store-overwritten',
    breaks: 'overwrites a shared store that this machine neither hydrated nor wrote',
    find: `if (held !== undefined && !attempts.includes(held)) return { ...about, outcome: 'refused' }`,
    replace: `void held`,
    tests: [unitTest('shared-roots', 'an object that this machine neither hydrated nor stored')],
  },
  {
    id: 'attempt-unnoted',
    breaks: 'does not recognise its own first store when the answer was lost',
    find: `const attempts = [...(known?.attempts ?? []), sha256]`,
    replace: `const attempts = [...(known?.attempts ?? [])]`,
    tests: [unitTest('shared-roots', 'is not what our own first store left when its answer was lost')],
  },
  {
    id: 'session-in-shared-key',
    breaks: 'makes a shared key that names the session',
    find: `if (segments.includes(sessionId)) throw refusal`,
    replace: `if (segments.length === 0) throw refusal`,
    tests: [unitTest('shared-store-key', 'is refused for')],
  },
  {
    id: 'unseen-store-opens',
    breaks: 'opens an empty shared store where the real one could not be looked for',
    find: `if (!this.#unseen.has(root) || existsSync(path)) return`,
    replace: `if (root !== '' || existsSync(path)) return`,
    tests: [unitTest('shared-roots', 'a store that is missing stays closed until it was looked for')],
  },
  {
    id: 'shared-flush-skipped',
    breaks: 'notes shared stores as stored before they are durable',
    file: STORE,
    find: `await store.flush({ signal })`,
    replace: `void store`,
    tests: [unitTest('shared-roots', 'uploads what changed, and flushes it')],
  },
  {
    id: 'shared-lock-let-go',
    breaks: 'uploads a shared store after its lock was given up',
    find: `const turn = before.then(() => lockAndRun(lockDir, options, work))`,
    replace: `const turn = before.then(() => lockAndRun(lockDir, options, async () => undefined)).then(work)`,
    tests: [unitTest('shared-roots', 'hold the lock from the copy to the end of the upload')],
  },
  {
    id: 'shared-store-replaced',
    breaks: 'puts a restored shared store over one that appeared meanwhile',
    find: `await link(path, livePath)`,
    replace: `await rename(path, livePath)`,
    tests: [unitTest('shared-roots', 'does not replace a database that another process created meanwhile')],
  },
]
