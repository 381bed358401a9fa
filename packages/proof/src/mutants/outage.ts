import { durabilityTest, unitTest, type WrittenMutant } from './mutant.ts'

/** What an outage does to turns, how it is paid back, and how a run ends in it. */
export const outageMutants: readonly WrittenMutant[] = [
  {
    id: 'gate-never-closed',
    breaks: 'takes input under strict although the last turn is not stored',
    find: `if (endangersTurns && this.#run.policy === 'strict') this.#gate.close(gateReason(error))`,
    replace: `void [endangersTurns, gateReason]`,
    tests: [unitTest('session-durability', 'refuses input from the failed snapshot on')],
  },
  {
    id: 'gate-never-opened',
    breaks: 'goes on refusing input after a snapshot was stored',
    find: `this.#gate.open()`,
    replace: '',
    tests: [unitTest('session-durability', 'refuses input from the failed snapshot on')],
  },
  {
    id: 'gate-before-all',
    breaks: 'refuses an input before a cancel can be heard',
    file: 'packages/engine/src/lifecycle/boot/join-durability.ts',
    find: `const GATE_PRIORITY = 200`,
    replace: `const GATE_PRIORITY = -200`,
    tests: [
      {
        file: 'packages/engine/src/lifecycle/boot/join-durability.test.ts',
        name: 'asks the durability after everybody else',
      },
    ],
  },
  {
    id: 'gate-for-a-blob',
    breaks: 'refuses input because a blob could not be uploaded ahead of its turn',
    find: `pushFailed(error: Error): void {
    this.outage.failed(error, { endangersTurns: false })`,
    replace: `pushFailed(error: Error): void {
    this.outage.failed(error, { endangersTurns: true })`,
    tests: [unitTest('session-blobs', 'never close the gate when they fail')],
  },
  {
    id: 'error-unannounced',
    breaks: 'raises no core.error under strict when a snapshot fails',
    find: `if (policy === 'strict') {`,
    replace: `if (policy === 'degrade') {`,
    tests: [unitTest('session-durability', 'refuses input from the failed snapshot on')],
  },
  {
    id: 'degraded-at-every-failure',
    breaks: 'reports an outage once for each of its failures',
    find: `if (this.#state !== undefined) {
      this.#state.consecutiveFailures += 1
      this.#state.failures += 1
      this.#state.lastError = error
      return`,
    replace: `if (this.#state !== undefined) {
      this.#state.consecutiveFailures += 1
      this.#state.failures += 1
      this.#state.lastError = error
      this.#postDegraded(this.#state)
      return`,
    tests: [unitTest('session-durability', 'an outage costs no turn, is reported once')],
  },
  {
    id: 'debts-forgotten',
    breaks: 'calls an outage over while something is still owed to the store',
    find: `if (isSettled) this.outage.over()`,
    replace: `void isSettled
    this.outage.over()`,
    tests: [unitTest('session-recovery', 'is not given up')],
  },
  {
    id: 'retry-gives-up',
    breaks: 'stops retrying after a few failures',
    find: `if (this.owesAnything) this.#schedule()
      })`,
    replace: `if (this.owesAnything && this.#failures < 3) this.#schedule()
      })`,
    tests: [unitTest('recovery', 'retries after 1 s, doubling to 60 s')],
  },
  {
    id: 'retry-without-backoff',
    breaks: 'retries every second however long the outage lasts',
    find: `firstDelayMs * 2 ** Math.min(this.#failures, 30)`,
    replace: `firstDelayMs`,
    tests: [unitTest('recovery', 'retries after 1 s, doubling to 60 s')],
  },
  {
    id: 'overflow-loses',
    breaks: 'drops pushes that do not fit, and owes nothing for them',
    find: `this.#dropped += 1
      this.#snapshotOwedSince = serial`,
    replace: `this.#dropped += 1`,
    tests: [unitTest('recovery', 'owes a whole snapshot when the queue overflows')],
  },
  {
    id: 'unflushed-pushes-forgotten',
    breaks: 'forgets pushes whose flush failed',
    find: `if (!(await actions.flush(signal))) return false`,
    replace: `await actions.flush(signal)`,
    tests: [unitTest('recovery', 'keeps pushes whose flush failed')],
  },
  {
    id: 'retry-stores-half-a-turn',
    breaks: 'retries a snapshot in the middle of a turn',
    find: `trigger === 'retry' ? [tracker.untilTurn()] : []`,
    replace: `trigger === 'retry' && tracker.betweenTurns ? [tracker.untilTurn()] : []`,
    tests: [unitTest('session-recovery', 'that waited behind a slow snapshot gives way')],
  },
  {
    id: 'retry-in-the-way',
    breaks: 'lets a retry go on storing what a turn that began meanwhile writes',
    find: `this.#untilTurn.abort(new NexusError`,
    replace: `void (this.#untilTurn, new NexusError`,
    tests: [unitTest('session-recovery', 'gives way when a turn begins')],
  },
  {
    id: 'last-snapshot-skipped',
    breaks: 'stops without a final snapshot',
    find: `const stored = clean && (await this.#storeLast(signal, onlyIfNew, failures))`,
    replace: `const stored = clean && onlyIfNew && signal.aborted`,
    tests: [unitTest('session-durability', 'stores everything, removes the owner marker')],
  },
  {
    id: 'strict-stop-resolves',
    breaks: 'ends well under strict although the last snapshot failed',
    find: `if (policy === 'strict' && clean) throw failure`,
    replace: `void policy`,
    tests: [unitTest('session-durability', 'rejects under strict when the last snapshot failed')],
  },
  {
    id: 'abandon-goes-on',
    breaks: 'lets a snapshot that runs go on when the run is abandoned',
    find: `fence.fall(this.closedError('was abandoned'))`,
    replace: `void fence`,
    tests: [durabilityTest('fallen-fence', 'a run that is abandoned stores nothing more')],
  },
  {
    id: 'events-before-plugins',
    breaks: 'raises events of the store before the plugins that handle them are up',
    find: `this.#tell = tell
    // The workspace`,
    replace: `this.#tell = tell
    this.#run.outbox.open(tell)
    void this.#run.outbox.flush()
    // The workspace`,
    tests: [unitTest('session-recovery', 'does not run before plugins are up')],
  },
  {
    id: 'leaked-turn-ends-recovery',
    breaks: 'never retries again after a turn that did not say its end',
    find: `if (this.#open.size > 0 && this.#isStalled()) this.#open.clear()`,
    replace: `void this.#isStalled`,
    tests: [unitTest('session-recovery', 'is not disabled by a turn that never ends')],
  },
  {
    id: 'nameless-end-leaks',
    breaks: 'leaves a turn open whose end does not name it',
    find: `if (turnId === undefined) this.#open.clear()`,
    replace: `if (turnId === undefined) this.#open.delete('')`,
    tests: [unitTest('turn-tracker', 'takes an end that names no turn for the end of all')],
  },
]
