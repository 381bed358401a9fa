import { durabilityFile, engineTest, unitTest, type WrittenMutant } from './mutant.ts'

const ORDER = unitTest('snapshot', 'commits in one order only')

/** The order of a commit: objects, flush, note on the local disk, manifest, flush, marker, flush. */
export const commitMutants: readonly WrittenMutant[] = [
  {
    id: 'marker-before-objects',
    breaks: 'puts a marker before any object of the generation is stored',
    file: durabilityFile('mirror/commit'),
    find: `await failpoint('snapshot:staged')`,
    replace: `await failpoint('snapshot:staged')
    const { writeFileSync } = await import('node:fs')
    writeFileSync(join(stagingDir, 'early'), '{}')
    await store.put(sessionKeys(this.#context.sessionId).marker, join(stagingDir, 'early'), { signal: this.#signal })`,
    tests: [ORDER],
  },
  {
    id: 'marker-before-manifest',
    breaks: 'puts the marker where the manifest belongs, and the manifest last',
    find: `await store.put(keys.manifest, manifestPath, { signal })
  await failpoint('snapshot:manifest-put')
  await store.flush({ signal })
  await failpoint('snapshot:manifest-flushed')
  await confirm(CONFIRM_AGE_MS)
  await store.put(keys.marker, markerPath, { signal })`,
    replace: `await store.put(keys.marker, markerPath, { signal })
  await failpoint('snapshot:manifest-put')
  await store.flush({ signal })
  await failpoint('snapshot:manifest-flushed')
  await store.put(keys.manifest, manifestPath, { signal })`,
    tests: [ORDER],
  },
  {
    id: 'flush-of-objects-skipped',
    breaks: 'puts the manifest while objects may not be durable',
    find: `await store.flush({ signal: this.#signal })
    await failpoint('snapshot:objects-flushed')`,
    replace: `await failpoint('snapshot:objects-flushed')`,
    tests: [ORDER],
  },
  {
    id: 'flush-of-manifest-skipped',
    breaks: 'puts the marker while the manifest may not be durable',
    find: `await store.flush({ signal })
  await failpoint('snapshot:manifest-flushed')`,
    replace: `await failpoint('snapshot:manifest-flushed')`,
    tests: [ORDER],
  },
  {
    id: 'last-flush-skipped',
    breaks: 'says that a turn is stored while its marker may not be durable',
    find: `await store.flush({ signal })
  await failpoint('snapshot:marker-flushed')`,
    replace: `await failpoint('snapshot:marker-flushed')`,
    tests: [ORDER],
  },
  {
    id: 'note-after-manifest',
    breaks: 'notes the pair on the local disk only when the manifest was put',
    find: `await beforeCommit({ generation: manifest.generation, nonce: manifest.nonce })
  await failpoint('snapshot:before-manifest')
  await confirm(0)
  await store.put(keys.manifest, manifestPath, { signal })`,
    replace: `await failpoint('snapshot:before-manifest')
  await store.put(keys.manifest, manifestPath, { signal })
  await beforeCommit({ generation: manifest.generation, nonce: manifest.nonce })`,
    tests: [unitTest('snapshot', 'does not begin to commit when noting the pair fails')],
  },
  {
    id: 'note-forgotten',
    breaks: 'never notes the pair on the local disk before the manifest is put',
    find: `(run.layout.chain === undefined ? await record.aboutToCommit(pair) : undefined)`,
    replace: `undefined`,
    tests: [
      unitTest('resolve-tree', 'is used when the answer to its own last commit was lost'),
      engineTest('two-hosts/own-commit', 'is known for ours by the next run on that machine'),
    ],
  },
  {
    id: 'manifest-of-the-uploaded',
    breaks: 'names in the manifest only what this turn uploaded',
    find: `return { tree, entries: this.#stored, uploaded`,
    replace: `return { tree, entries: new Map([...this.#stored].filter(([path]) => this.#uploaded.has(path))), uploaded`,
    tests: [unitTest('snapshot', 'are skipped when the listing shows the blob at its size')],
  },
  {
    id: 'generation-repeats',
    breaks: 'commits every generation under the same number',
    find: `const generation = 1 + Math.max(`,
    replace: `const generation = Math.max(1, `,
    tests: [unitTest('session-durability', 'grow across runs and hosts')],
  },
]
