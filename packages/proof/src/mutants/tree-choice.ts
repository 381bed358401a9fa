import { durabilityFile, engineTest, unitTest, type WrittenMutant } from './mutant.ts'

const GUARD = durabilityFile('commit-guard')

/** Which tree is true, at boot and before every commit. */
export const treeChoiceMutants: readonly WrittenMutant[] = [
  {
    id: 'lost-answers-are-foreign',
    breaks: 'takes its own commit whose answer was lost for another host’s',
    find: `return (record.committed !== undefined && same(record.committed)) || record.pending.some(same)`,
    replace: `return record.committed !== undefined && same(record.committed)`,
    tests: [
      unitTest('tree-verdict', 'when the store holds a commit of ours whose answer was lost'),
      engineTest('two-hosts/own-commit', 'is known for ours by the next run on that machine'),
    ],
  },
  {
    id: 'nonce-ignored',
    breaks: 'takes another host’s commit of the same generation for its own',
    find: `other.generation === pair.generation && other.nonce === pair.nonce`,
    replace: `other.generation === pair.generation`,
    tests: [unitTest('tree-verdict', 'when another host committed the same generation')],
  },
  {
    id: 'power-loss-ignored',
    breaks: 'trusts a tree that a power loss may have torn',
    find: `if (record !== undefined && (record.clean || record.bootId === bootId)) {`,
    replace: `if (record !== undefined) {`,
    tests: [
      unitTest('tree-verdict', 'the stored one after a reboot without a stop'),
      engineTest('two-hosts/power-loss', 'takes its tree for torn'),
    ],
  },
  {
    id: 'newer-torn-tree-lost',
    breaks: 'gives up turns that only a tree from before a power loss has',
    find: `return { kind: isNewer ? 'torn-but-newer' : 'torn' }`,
    replace: `return { kind: 'torn' }`,
    tests: [
      unitTest('tree-verdict', 'when it has turns that the store never got'),
      engineTest('two-hosts/power-loss', 'keeps a tree with turns that the store never got'),
    ],
  },
  {
    id: 'emptied-conversation-trusted',
    breaks: 'goes on with a conversation that was emptied outside of a turn',
    find: `if (hasLost) return`,
    replace: `if (hasLost && record === undefined) return`,
    tests: [engineTest('engine-lost-content', 'restores a committed conversation when the local one is')],
  },
  {
    id: 'lost-journal-trusted',
    breaks: 'goes on with a tree whose journal is gone or cut short, and commits it over the good one',
    find: `if (isComplete(journal, remote.lastSeq)) return`,
    replace: `if (isComplete(journal, -1)) return`,
    tests: [
      unitTest('tree-verdict', 'the stored one, when the journal that it was committed from is'),
      engineTest('engine-lost-content', 'restores the committed session when the local tree holds'),
    ],
  },
  {
    id: 'fork-unnoticed',
    breaks: 'never says that a tree which is set aside holds turns of its own',
    find: `return turnEnd === undefined || turnEnd > (record?.lastSeq ?? 0)`,
    replace: `return turnEnd === undefined && record === undefined`,
    tests: [
      unitTest('tree-verdict', 'calls it a fork'),
      engineTest('two-hosts/stale-tree', 'calls it a fork when it has a turn that the store never got'),
    ],
  },
  {
    id: 'stale-tree-deleted',
    breaks: 'deletes a tree that another host has overtaken',
    find: `await rename(path, keptAt)
  await syncDirectory(sessionsRoot)`,
    replace: `await rm(path, { recursive: true })
  await syncDirectory(sessionsRoot)`,
    tests: [unitTest('resolve-tree', 'is set aside, never deleted, and the session restored')],
  },
  {
    id: 'refuse-ignored',
    breaks: 'boots on a stale tree although stale_local is refuse',
    find: `if (verdict.kind === 'stale' && staleLocal === 'refuse') {`,
    replace: `if (verdict.kind === 'torn' && staleLocal === 'refuse') {`,
    tests: [unitTest('resolve-tree', 'fails the boot under refuse')],
  },
  {
    id: 'set-aside-not-undone',
    breaks: 'leaves no tree at all when the restore after setting it aside fails',
    find: `if (!existsSync(local.path)) {`,
    replace: `if (local.path === '') {`,
    tests: [unitTest('resolve-tree', 'comes back to its place when the restore fails')],
  },
  {
    id: 'decision-not-repeated',
    breaks: 'forgets at its first commit that boot could not ask which tree is true',
    find: `if (this.#atBoot !== undefined) await this.#decideAgain(held, this.#atBoot)`,
    replace: `this.#atBoot = undefined`,
    tests: [
      unitTest('resolve-tree', 'a tree that may be torn is not stored'),
      engineTest('two-hosts/power-loss', 'never stores what may be torn'),
    ],
  },
  {
    id: 'step-zero-skipped',
    breaks: 'commits without looking who committed last',
    find: `await guard.check(held)`,
    replace: '',
    tests: [
      unitTest('resolve-tree', 'is certain: the run writes nothing more'),
      engineTest('two-hosts/frozen-host', 'says so before it stores anything'),
    ],
  },
  {
    id: 'on-lost-ignored',
    breaks: 'stops storing although on_lost is overwrite',
    find: `if (onLost === 'overwrite') return record.committed(held, record.current.lastSeq)`,
    replace: `void onLost`,
    tests: [
      unitTest('resolve-tree', 'is overwritten when on_lost says so'),
      engineTest('two-hosts/frozen-host', 'overwrites where on_lost says so'),
    ],
  },
  {
    id: 'loss-forgotten',
    breaks: 'writes its owner marker and blobs on after another host has committed',
    file: GUARD,
    find: `fence.fall(`,
    replace: `Array.of(`,
    tests: [unitTest('resolve-tree', 'is certain: the run writes nothing more')],
  },
  {
    id: 'clean-end-unnoted',
    breaks: 'never notes that a run ended well',
    find: `await record.end({ clean: synced, stored })`,
    replace: `await record.end({ clean: synced && !stored, stored })`,
    tests: [
      engineTest('two-hosts/power-loss', 'goes on with its tree and fetches nothing'),
      unitTest('resolve-tree', 'is no question after a clean stop'),
    ],
  },
  {
    id: 'torn-tree-adopted',
    breaks: 'forgets, in a boot that could not ask the store, that the tree may be torn',
    find: `if (previous.clean || previous.bootId === bootId) return`,
    replace: `if (previous.bootId !== '') return`,
    tests: [unitTest('resolve-tree', 'a tree that may be torn is not stored, whatever turns came after')],
  },
]
