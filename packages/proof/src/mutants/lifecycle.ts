import { durabilityFile, engineTest, type CatchingTest, type WrittenMutant } from './mutant.ts'

const SRC = 'packages/engine/src'

const boot = (name: string): CatchingTest => engineTest('engine-boot', name)
const BROUGHT: CatchingTest = {
  file: `${SRC}/config/merge-for-resume.test.ts`,
  name: 'brings these keys and no others',
}

/** What a boot puts in force: retention, ticks, lock, the host's own keys, labels, warnings. */
export const lifecycleMutants: readonly WrittenMutant[] = [
  {
    id: 'retention-always-explicit',
    breaks: 'removes sessions that no store holds, on a host that said nothing of retention',
    file: `${SRC}/lifecycle/retention.ts`,
    find: `explicit: sessions.retentionExplicit,`,
    replace: `explicit: true,`,
    tests: [boot('removes only what a store holds when no retention is written')],
  },
  {
    id: 'retention-never-explicit',
    breaks: 'keeps sessions past a retention that the host wrote, unless a store holds them',
    file: `${SRC}/lifecycle/retention.ts`,
    find: `explicit: sessions.retentionExplicit,`,
    replace: `explicit: false,`,
    tests: [boot('removes sessions past a retention that the host wrote')],
  },
  {
    id: 'failed-snapshot-unguarded',
    breaks: 'removes the only whole copy of a session whose last snapshot failed',
    file: `${SRC}/lifecycle/retention.ts`,
    find: `if (record === undefined || record.stored) return false`,
    replace: `if (record !== undefined) return false`,
    tests: [boot('removes nothing whose last snapshot failed')],
  },
  {
    id: 'ticks-not-started',
    breaks: 'never ticks',
    file: `${SRC}/lifecycle/boot.ts`,
    find: `session.ticks.start()`,
    replace: ``,
    tests: [boot('ticks from its boot to its stop')],
  },
  {
    id: 'agent-id-of-the-session',
    breaks: 'takes the agent id, and with it a directory of the host, from a session',
    file: `${SRC}/config/config-keys.ts`,
    find: `it names a directory', whose: 'host',`,
    replace: `it names a directory', whose: 'session',`,
    tests: [BROUGHT],
  },
  {
    id: 'log-level-of-the-session',
    breaks: 'takes the log level from a session',
    file: `${SRC}/config/config-keys.ts`,
    find: `'warn', 'error'], default: 'info', whose: 'host',`,
    replace: `'warn', 'error'], default: 'info', whose: 'session',`,
    tests: [BROUGHT],
  },
  {
    id: 'shared-priority-untold',
    breaks: 'says nothing of gates that share a priority',
    file: `${SRC}/lifecycle/boot.ts`,
    find: `for (const warning of bus.sharedVetoPriorities()) options.logger.warn({}, warning)`,
    replace: ``,
    tests: [boot('warns of gates that share a priority')],
  },
  {
    id: 'labels-dropped',
    breaks: 'forgets the labels that the host gave a session',
    file: `${SRC}/lifecycle/open-parts.ts`,
    find: `labels: options.labels }`,
    replace: `labels: {} }`,
    tests: [boot('notes the labels of the host with the session')],
  },
  {
    id: 'boot-keeps-the-lock',
    breaks: 'leaves the session locked after a boot that failed',
    file: `${SRC}/lifecycle/boot.ts`,
    find: `session.lock.release()`,
    replace: ``,
    tests: [engineTest('engine-boot-steps', 'gives everything back')],
  },
  {
    id: 'agent-untold',
    breaks: 'does not tell plugins whose session it is',
    file: `${SRC}/lifecycle/open-parts.ts`,
    find: `agentId: loaded.config.core.agentId,`,
    replace: `agentId: '',`,
    tests: [engineTest('engine-boot-steps', 'tells plugins whose it is')],
  },
  {
    id: 'agent-storage-shared',
    breaks: 'keeps the databases of every agent in one place',
    file: `${SRC}/lifecycle/open-parts.ts`,
    find: `...(agentId === '' ? {} : { agentId }),`,
    replace: ``,
    tests: [engineTest('engine-boot-steps', 'keeps agent-scope databases apart')],
  },
  {
    id: 'damaged-journal-untold',
    breaks: 'keeps damage of the journal to itself',
    file: `${SRC}/lifecycle/boot.ts`,
    find: `await tellDamage(session, request.bus)`,
    replace: ``,
    tests: [engineTest('engine-boot-steps', 'is told as one event, with file and position')],
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
    file: `${SRC}/session/retention.ts`,
    find: `await removeMachineRecord(root, id)`,
    replace: `void removeMachineRecord`,
    tests: [engineTest('engine-retention', 'with the record of it')],
  },
  {
    id: 'forked-tree-swept',
    breaks: 'removes a tree that was set aside with turns that the store never got',
    file: `${SRC}/session/retention.ts`,
    find: `note === undefined || note.forked ||`,
    replace: `note === undefined ||`,
    tests: [engineTest('engine-retention', 'hold nothing that the store lacks')],
  },
]
