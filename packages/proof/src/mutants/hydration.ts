import { durabilityFile, durabilityTest, engineTest, unitTest, type WrittenMutant } from './mutant.ts'

const HYDRATE = durabilityFile('hydrate')

/** What a hydration takes, refuses and repairs. */
export const hydrationMutants: readonly WrittenMutant[] = [
  {
    id: 'digests-unchecked',
    breaks: 'believes what it fetched without comparing digests',
    find: `if (digest.bytes !== entry.size || digest.sha256 !== entry.sha256) {`,
    replace: `if (digest.bytes !== entry.size) {`,
    tests: [
      unitTest('hydrate', 'that lost or changed a blob fails the boot'),
      unitTest('hydrate', 'that rewrote an object in place leaves a mixture'),
    ],
  },
  {
    id: 'prune-forgotten',
    breaks: 'keeps what lies under the prefix and no manifest names',
    find: `const isExtra = (path: string): boolean => isBlob(path) && !named.has(path) && !isBelowLeaf(path, named)`,
    replace: `const isExtra = (path: string): boolean => !named.has(path) && !isBelowLeaf(path, named)`,
    tests: [unitTest('hydrate', 'nothing of what was pruned is left in the tree')],
  },
  {
    id: 'manifest-unscrubbed',
    breaks: 'restores a lock, sidecars and temporary files that a manifest names',
    find: `const kept = left.length === 0 ? objects : without(objects, left)`,
    replace: `const kept = objects`,
    tests: [unitTest('hydrate', 'with a manifest that names our lock')],
  },
  {
    id: 'lock-not-staged',
    breaks: 'lets the tree appear without our lock in it',
    find: `await prepareStaging(stagingDir)`,
    replace: `void prepareStaging`,
    tests: [unitTest('hydrate', 'has our lock in the tree from the first moment it can be seen')],
  },
  {
    id: 'outage-is-never-seen',
    breaks: 'takes a store that fails for one that has no manifest',
    find: `if (isObjectNotFound(error)) return undefined
    throw isNexusError(error)`,
    replace: `if (isNexusError(error)) return undefined
    throw isObjectNotFound(error)`,
    tests: [unitTest('mirror/manifest/read', 'is never "none" when the store fails')],
  },
  {
    id: 'append-not-cut',
    breaks: 'restores an object with what an interrupted snapshot appended to it',
    find: `if (digest.size > entry.size) {`,
    replace: `if (digest.size < entry.size) {`,
    tests: [unitTest('hydrate', 'that appended to an object is undone by cutting it back')],
  },
  {
    id: 'segment-not-rebuilt',
    breaks: 'gives up an active segment that a rotation emptied',
    find: `if (fetched.differing.has(ACTIVE_SEGMENT_PATH))`,
    replace: `if (fetched.differing.has(''))`,
    tests: [durabilityTest('snapshot-journal', 'a rotation inside an interrupted snapshot')],
  },
  {
    id: 'lost-object-ignored',
    breaks: 'boots without an object that the manifest names and the store lost',
    find: `if (lost !== undefined) {`,
    replace: `if (lost === '') {`,
    tests: [unitTest('hydrate', 'that lost a named object fails the boot and names it')],
  },
  {
    id: 'mixture-unreported',
    breaks: 'says nothing of objects that an interrupted snapshot overwrote',
    find: `return { generation, reason: REASON, paths }`,
    replace: `return undefined`,
    tests: [
      unitTest('hydrate', 'that rewrote an object in place leaves a mixture'),
      engineTest('two-hosts/own-commit', 'tells which objects were overwritten by the dead one'),
    ],
  },
  {
    id: 'newer-commit-unread',
    breaks: 'takes a commit that landed during the hydration for damage',
    find: `if (!isWhole(fetched)) {`,
    replace: `if (isWhole(fetched) && manifest.generation < 0) {`,
    tests: [unitTest('hydrate', 'of another host that ended well while we fetched is followed')],
  },
  {
    id: 'half-tree-left',
    breaks: 'leaves a staging directory behind when it fails',
    file: HYDRATE,
    find: `await removeStagingDir(stagingDir).catch((error: unknown) => {`,
    replace: `await Promise.resolve().catch((error: unknown) => {`,
    tests: [unitTest('hydrate', 'is never "never seen" when the store fails, at whatever call')],
  },
  {
    id: 'damage-taken-for-a-mixture',
    breaks: 'takes an object that was changed by another program for one that an interrupted commit overwrote',
    find: `if (committedAtMs === undefined) return`,
    replace: `if (committedAtMs !== 0) return`,
    tests: [unitTest('hydrate', 'is no excuse for an object that was last stored before the commit')],
  },
  {
    id: 'databases-may-be-mixed',
    breaks: 'resumes with a database of two generations',
    find: `(onMixed === 'auto' && paths.some(isIrreplaceable))`,
    replace: `(onMixed === 'auto' && paths.length < 0)`,
    tests: [unitTest('hydrate', 'under auto fails for a database and the conversation')],
  },
  {
    id: 'record-after-the-tree',
    breaks: 'notes whose commit a restored tree is only when it is in its place',
    find: `await beforePlacing?.(restored)`,
    replace: `void beforePlacing`,
    tests: [unitTest('resolve-tree', 'is known for what it is, also when the process dies at')],
  },
  {
    id: 'record-lent-to-another-tree',
    breaks: 'leaves the record of a restored commit with the tree that came back when it could not be placed',
    find: `await record.begin(beforeDecision(previous, resolver.bootId))`,
    replace: `void previous`,
    tests: [unitTest('resolve-tree', 'does not lend its record to the tree that comes back')],
  },
  {
    id: 'forgotten-in-silence',
    breaks: 'begins anew in a store that forgot a committed session',
    find: `if (generation === undefined || acceptEmpty) return`,
    replace: `if (generation !== 0 || acceptEmpty) return`,
    tests: [unitTest('resolve-tree', 'is refused under strict')],
  },
  {
    id: 'torn-tree-healed-by-a-turn',
    breaks: 'takes a torn tree for whole because a turn ended in it since',
    find: `Math.min(journal.turnEnd ?? 0, record?.tornAtSeq ?? Infinity)`,
    replace: `(journal.turnEnd ?? 0)`,
    tests: [unitTest('resolve-tree', 'whatever turns came after the power loss')],
  },
  {
    id: 'modes-forgotten',
    breaks: 'restores files with the modes that the umask gives',
    find: `chmodSync(localPath, (entry?.mode ?? OWNER_ONLY_FILE) & PERMISSION_BITS)`,
    replace: `chmodSync(localPath, OWNER_ONLY_FILE)`,
    tests: [unitTest('hydrate', 'holds under umask')],
  },
  {
    id: 'escaping-paths',
    breaks: 'takes any path that a manifest names',
    find: `if (fault !== undefined) throw new Fault(\`names \${quote(path)} in \${where}, which \${fault}\`)`,
    replace: `void fault`,
    tests: [{ file: durabilityFile('mirror/manifest/parse.test'), name: 'refuses the path' }],
  },
]
