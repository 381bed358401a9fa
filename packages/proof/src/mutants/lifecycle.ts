import { engineTest, type CatchingTest, type WrittenMutant } from './mutant.ts'

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
    find: `return record !== undefined && !record.stored`,
    replace: `return record !== undefined && false`,
    tests: [boot('removes nothing whose last snapshot failed')],
  },
  {
    id: 'ticks-not-started',
    breaks: 'never ticks',
    file: `${SRC}/lifecycle/boot.ts`,
    find: `ticks.start()`,
    replace: ``,
    tests: [boot('ticks from its boot to its stop')],
  },
  {
    id: 'lost-lock-ignored',
    breaks: 'goes on with a session whose lock is not its own any more',
    file: `${SRC}/lifecycle/boot.ts`,
    find: `fence.fall(new NexusError('LOCKED', message, { op: 'session.lock', key: sessionId }))`,
    replace: `void message`,
    tests: [boot('ends when its lock is lost to another process')],
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
    file: `${SRC}/lifecycle/boot.ts`,
    find: `labels: options.labels,`,
    replace: `labels: {},`,
    tests: [boot('notes the labels of the host with the session')],
  },
]
