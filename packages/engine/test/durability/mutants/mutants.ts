/** One deliberate mistake in the durability code, and the tests that must notice it. */
export interface Mutant {
  name: string
  /** Below `src/durability`. */
  file: string
  /** Text that stands in the file exactly once. */
  find: string
  replace: string
  /** Test files, from the package's root. */
  tests: string[]
}

const FAULTS = 'test/durability/fault-injection.test.ts'
const STORIES = 'src/durability/resolve-tree.test.ts'
const SESSION = 'src/durability/session-durability.test.ts'
const RECOVERY = 'src/durability/session-recovery.test.ts'
const SHARED = 'src/durability/shared-roots.test.ts'

export const MUTANTS: Mutant[] = [
  {
    name: 'the commit marker is put before the objects',
    file: 'snapshot-run.ts',
    find: 'const stored = await this.#storeTree(stagingDir, listing, parts)',
    replace: `const { writeFileSync } = await import('node:fs')
    writeFileSync(join(stagingDir, 'early'), JSON.stringify({ generation: this.#options.generation }))
    await this.#store.put(this.#keys.marker, join(stagingDir, 'early'), this.#waiting)
    const stored = await this.#storeTree(stagingDir, listing, parts)`,
    tests: [FAULTS],
  },
  {
    name: 'the manifest is put before the objects are durable',
    file: 'snapshot-run.ts',
    find: 'await this.#store.flush(this.#waiting)',
    replace: '',
    tests: [FAULTS],
  },
  {
    name: 'the manifest names only what this snapshot uploaded',
    file: 'snapshot-run.ts',
    find: 'stored: entries,',
    replace: 'stored: new Map([...entries].filter(([path]) => (arguments[0] as StoredTree).uploaded.has(path))),',
    tests: [FAULTS],
  },
  {
    name: 'what is not committed is not pruned',
    file: 'hydrate-fetch.ts',
    find: 'await forEachBounded(manifest.objects, concurrency, takeOne, signal)\n  return fetched',
    replace: `const { readdirSync } = await import('node:fs')
  for (const entry of readdirSync(rawDir, { withFileTypes: true, recursive: true })) {
    if (entry.isFile()) await takeOne(join(entry.parentPath, entry.name).slice(rawDir.length + 1))
  }
  return fetched`,
    tests: [FAULTS],
  },
  {
    name: 'an immutable file is skipped without asking the store',
    file: 'snapshot-tree.ts',
    find: 'if (this.#sizes?.get(path) !== stat.size) return false',
    replace: '',
    tests: [FAULTS, 'src/durability/session-blobs.test.ts'],
  },
  {
    name: 'the gate is never closed',
    file: 'outage.ts',
    find: "if (endangersTurns && policy === 'strict') gate.close(gateReason(error))",
    replace: 'void [gateReason, endangersTurns]',
    tests: [SESSION],
  },
  {
    name: 'the gate is never opened again',
    file: 'store-ledger.ts',
    find: 'gate.open()',
    replace: 'void gate',
    tests: [SESSION],
  },
  {
    name: 'a blob that fails closes the gate',
    file: 'store-ledger.ts',
    find: 'pushFailed(error: Error): void {\n    this.outage.failed(error, { endangersTurns: false })',
    replace: 'pushFailed(error: Error): void {\n    this.outage.failed(error, { endangersTurns: true })',
    tests: ['src/durability/session-blobs.test.ts'],
  },
  {
    name: 'the retry gives up after one attempt',
    file: 'recovery.ts',
    find: 'if (this.owesAnything) this.#schedule()',
    replace: '',
    tests: ['src/durability/recovery.test.ts', RECOVERY],
  },
  {
    name: 'a retry stores half a turn',
    file: 'session-durability.ts',
    find: 'mayTakeSnapshot: () => this.#ready && this.#tracker.betweenTurns,',
    replace: 'mayTakeSnapshot: () => this.#ready,',
    tests: [RECOVERY],
  },
  {
    name: 'a retry goes on when a turn begins',
    file: 'session-durability.ts',
    find: 'onBegin: () => this.#snapshots.yieldRetry(),',
    replace: 'onBegin: () => undefined,',
    tests: [RECOVERY],
  },
  {
    name: 'an overflow forgets what did not fit',
    file: 'recovery.ts',
    find: 'this.#dropped += 1\n      this.#snapshotOwedSince = serial',
    replace: 'this.#dropped += 1',
    tests: ['src/durability/recovery.test.ts'],
  },
  {
    name: 'pushes are forgotten before they are flushed',
    file: 'recovery.ts',
    find: 'if (!(await actions.flush(signal))) return false',
    replace: '',
    tests: ['src/durability/recovery.test.ts'],
  },
  {
    name: 'a request joins the snapshot that runs already',
    file: 'snapshot-slot.ts',
    find: 'const batch = (this.#next ??= openBatch<Request, Outcome>())',
    replace: 'const batch = this.#running ?? (this.#next ??= openBatch<Request, Outcome>())',
    tests: ['src/durability/snapshot-slot.test.ts'],
  },
  {
    name: 'the slot is not free when the result is announced',
    file: 'snapshot-slot.ts',
    find: 'const outcome = await this.#work.run(batch.requests).finally(() => this.#free())\n      await this.#work.announce(outcome)',
    replace:
      'const outcome = await this.#work.run(batch.requests)\n      await this.#work.announce(outcome)\n      this.#free()',
    tests: ['src/durability/snapshot-slot.test.ts'],
  },
  {
    name: 'nobody looks who committed last',
    file: 'session-snapshots.ts',
    find: 'await this.#options.guard(held)',
    replace: '',
    tests: [STORIES],
  },
  {
    name: 'our own commit is not noted before it is put',
    file: 'session-snapshots.ts',
    find: 'beforeCommit: (pair) => record.aboutToCommit(pair),',
    replace: 'beforeCommit: async () => undefined,',
    tests: [FAULTS],
  },
  {
    name: 'a tree of an earlier boot is trusted',
    file: 'tree-verdict.ts',
    find: '(record.clean || record.bootId === bootId)',
    replace: 'true',
    tests: ['src/durability/tree-verdict.test.ts', STORIES],
  },
  {
    name: 'a commit is told by its generation alone',
    file: 'machine-record.ts',
    find: 'other.generation === pair.generation && other.nonce === pair.nonce',
    replace: 'other.generation === pair.generation',
    tests: ['src/durability/tree-verdict.test.ts'],
  },
  {
    name: 'a boot without an answer forgets that the tree may be torn',
    file: 'resolve-tree.ts',
    find: 'bootId: previous.clean ? bootId : previous.bootId',
    replace: 'bootId',
    tests: [STORIES],
  },
  {
    name: 'the decision is not made again before the first commit',
    file: 'commit-guard.ts',
    find: 'if (this.#undecided) await this.#decideAgain(held)',
    replace: 'this.#undecided = false',
    tests: [STORIES],
  },
  {
    name: 'a lost run goes on beating',
    file: 'session-durability.ts',
    find: 'void this.#owner.stop()',
    replace: '',
    tests: [STORIES],
  },
  {
    name: 'a failed restore leaves the session without a tree',
    file: 'resolve-tree.ts',
    find: 'if (!existsSync(local.path)) await rename(keptAt, local.path)',
    replace: '',
    tests: [STORIES],
  },
  {
    name: "somebody else's owner marker is removed",
    file: 'owner.ts',
    find: 'if (holder?.instanceId !== this.#options.identity.instanceId) return',
    replace: 'void holder',
    tests: ['src/durability/owner.test.ts'],
  },
  {
    name: 'a heartbeat writes over another instance',
    file: 'owner.ts',
    find: 'if (!yields) await this.#write(signal)',
    replace: 'void yields\n      await this.#write(signal)',
    tests: ['src/durability/owner.test.ts'],
  },
  {
    name: 'events go out before plugins are up',
    file: 'session-durability.ts',
    find: 'this.#bus = bus\n    // The workspace',
    replace: 'this.#bus = bus\n    this.#outbox.open(bus)\n    void this.#outbox.flush()\n    // The workspace',
    tests: [RECOVERY],
  },
  {
    name: 'an abandoned run goes on uploading blobs',
    file: 'session-ending.ts',
    find: 'blobs.close()\n    this.#ending ??= this.#abandon()',
    replace: 'this.#ending ??= this.#abandon()',
    tests: ['src/durability/session-blobs.test.ts'],
  },
  {
    name: 'blobs that no commit names are evicted',
    file: 'session-blobs.ts',
    find: 'canEvict: (sha256) => committed.names(blobPaths(sha256).bin),',
    replace: 'canEvict: () => true,',
    tests: ['src/durability/session-blobs.test.ts'],
  },
  {
    name: 'a blob comes back without its digest being checked',
    file: 'blob-repair.ts',
    find: 'if (found !== sha256) {',
    replace: 'if (found === undefined) {',
    tests: ['src/durability/blob-repair.test.ts'],
  },
  {
    name: 'a shared store that came from elsewhere is overwritten',
    file: 'shared-roots-store.ts',
    find: "if (held !== undefined && !attempts.includes(held)) return { ...about, outcome: 'refused' }",
    replace: 'void held',
    tests: [SHARED],
  },
  {
    name: 'a shared store is uploaded after its lock was given up',
    file: 'shared-store-lock.ts',
    find: 'const turn = before.then(() => lockAndRun(lockDir, options, work))',
    replace: 'const turn = before.then(() => lockAndRun(lockDir, options, async () => undefined)).then(work)',
    tests: [SHARED],
  },
  {
    name: 'a missing shared store opens empty while nobody could look for it',
    file: 'shared-roots.ts',
    find: 'if (!this.#unseen.has(root) || existsSync(path)) return',
    replace: 'if (root !== "" || existsSync(path)) return',
    tests: [SHARED],
  },
  {
    name: 'a restored shared store replaces one that appeared meanwhile',
    file: 'shared-roots-pull.ts',
    find: 'await link(path, livePath)',
    replace: 'await rename(path, livePath)',
    tests: [SHARED],
  },
]
