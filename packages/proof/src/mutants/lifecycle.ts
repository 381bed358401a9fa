import { durabilityFile, engineTest, type Mutant } from './mutant.ts'

const LIFECYCLE = 'packages/engine/src/lifecycle'
const BOOT = `${LIFECYCLE}/boot.ts`
const RETENTION = `${LIFECYCLE}/retention.ts`
const SWEEPS = 'packages/engine/src/session/retention.ts'
const PARTS = `${LIFECYCLE}/open-parts.ts`

/** What a boot hands on, each in one line that nothing else depends on. */
export const lifecycleMutants: readonly Mutant[] = [
  {
    id: 'boot-keeps-what-it-took',
    breaks: 'leaves the session locked after a boot that failed',
    file: BOOT,
    find: `session.lock.release()`,
    replace: `void session.lock`,
    tests: [engineTest('engine-boot', 'gives everything back')],
  },
  {
    id: 'no-ticks',
    breaks: 'never begins to tick',
    file: BOOT,
    find: `session.ticks.start()`,
    replace: `void session.ticks`,
    tests: [engineTest('engine-boot', 'ticks, counting up, until it is stopped')],
  },
  {
    id: 'gates-of-one-priority-untold',
    breaks: 'says nothing of gates that share a priority',
    file: BOOT,
    find: `for (const warning of bus.sharedVetoPriorities()) options.logger.warn({}, warning)`,
    replace: `void options.logger`,
    tests: [engineTest('engine-boot', 'warns of gates that share a priority')],
  },
  {
    id: 'labels-dropped',
    breaks: 'records no labels',
    file: PARTS,
    find: `, labels: options.labels }`,
    replace: ` }`,
    tests: [engineTest('engine-boot', 'records the profile and the labels')],
  },
  {
    id: 'lost-lock-unheard',
    breaks: 'goes on when another process has the lock',
    file: PARTS,
    find: `, onLost: onLockLost }`,
    replace: `, onLost: () => void onLockLost }`,
    tests: [engineTest('engine-boot', 'ends when its lock is lost')],
  },
  {
    id: 'agent-untold',
    breaks: 'does not tell plugins whose session it is',
    file: PARTS,
    find: `agentId: loaded.config.core.agentId,`,
    replace: `agentId: '',`,
    tests: [engineTest('engine-boot', 'tells plugins whose it is')],
  },
  {
    id: 'agent-storage-shared',
    breaks: 'keeps the databases of every agent in one place',
    file: PARTS,
    find: `...(agentId === '' ? {} : { agentId }),`,
    replace: ``,
    tests: [engineTest('engine-boot', 'keeps agent-scope databases apart')],
  },
  {
    id: 'session-brings-host-policy',
    breaks: "lets a session's tree decide about the host: log level, agent, retention",
    file: 'packages/engine/src/config/merge-for-resume.ts',
    find: `.filter(([, { whose }]) => whose === 'session')`,
    replace: `.filter(([path]) => path[0] !== '')`,
    tests: [{ file: 'packages/engine/src/config/merge-for-resume.test.ts', name: 'brings these keys and no others' }],
  },
  {
    id: 'damaged-journal-untold',
    breaks: 'keeps damage of the journal to itself',
    file: BOOT,
    find: `await tellDamage(session, request.bus)`,
    replace: `void tellDamage`,
    tests: [engineTest('engine-boot', 'is told as one event, with file and position')],
  },
  {
    id: 'default-retention-taken-for-explicit',
    breaks: 'removes sessions that exist nowhere else under a retention that nobody wrote down',
    file: RETENTION,
    find: `explicit: sessions.retentionExplicit,`,
    replace: `explicit: true,`,
    tests: [engineTest('engine-retention', 'removes only sessions whose end is stored')],
  },
  {
    id: 'last-snapshot-unguarded',
    breaks: 'removes a session whose last turn no store has',
    file: RETENTION,
    find: `lastSnapshotFailed: (sessionId: string) => lastSnapshotFailed(sessions.root, sessionId, logger),`,
    replace: `lastSnapshotFailed: (sessionId: string) => void lastSnapshotFailed(sessions.root, sessionId, logger) as never,`,
    tests: [engineTest('engine-retention', 'keeps one whose last turn no store got')],
  },
  {
    id: 'killed-runs-kept-for-ever',
    breaks: 'takes every killed run for one whose last snapshot failed',
    file: durabilityFile('machine-record'),
    find: `return ((record.clean ? lastSeq : turnEnd) ?? Number.POSITIVE_INFINITY) > record.lastSeq`,
    replace: `return (lastSeq ?? turnEnd ?? 1) > 0`,
    tests: [engineTest('engine-retention', 'and one that a killed run left')],
  },
  {
    id: 'removed-session-remembered',
    breaks: 'keeps the record of a session that retention removed',
    file: SWEEPS,
    find: `await removeMachineRecord(root, id)`,
    replace: `void removeMachineRecord`,
    tests: [engineTest('engine-retention', 'with the record of it')],
  },
  {
    id: 'forked-tree-swept',
    breaks: 'removes a tree that was set aside with turns that the store never got',
    file: SWEEPS,
    find: `note === undefined || note.forked ||`,
    replace: `note === undefined ||`,
    tests: [engineTest('engine-retention', 'hold nothing that the store lacks')],
  },
]
