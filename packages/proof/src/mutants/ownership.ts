import { durabilityTest, engineTest, unitTest, type WrittenMutant } from './mutant.ts'

/** The owner marker. */
export const ownershipMutants: readonly WrittenMutant[] = [
  {
    id: 'foreign-marker-deleted',
    breaks: 'removes at its end a marker that is not its own',
    find: `if (holder?.instanceId !== this.#options.identity.instanceId) return`,
    replace: `void holder`,
    tests: [
      unitTest('owner', 'is left alone by a heartbeat that finds another instance'),
      engineTest('two-hosts/owner', 'both hear of it'),
    ],
  },
  {
    id: 'heartbeat-steals',
    breaks: 'writes its marker over that of another instance at every heartbeat',
    find: `if (!yields) await this.#write(signal)`,
    replace: `void yields
      await this.#write(signal)`,
    tests: [unitTest('owner', 'is left alone by a heartbeat that finds another instance')],
  },
  {
    id: 'conflict-repeated',
    breaks: 'reports the same conflict at every heartbeat',
    find: `if (this.#reported) return`,
    replace: `if (this.#verdict === 'free') return`,
    tests: [durabilityTest('proof-owner', 'a conflict that lasts is reported once')],
  },
  {
    id: 'crash-is-conflict',
    breaks: 'reports a conflict with a process of this machine that is gone',
    find: `if (marker.host === us.host && isGone(marker, us, known)) return 'crashed'`,
    replace: `void isGone`,
    tests: [
      unitTest('owner', 'takes over in silence from a process of this host that is gone'),
      engineTest('two-hosts/owner', 'raise nothing when the first one crashed on this machine'),
    ],
  },
  {
    id: 'marker-outlives-stop',
    breaks: 'leaves its marker behind after a stop',
    find: `await store.delete(this.#marker.key, options)`,
    replace: `void options`,
    tests: [
      unitTest('session-durability', 'stores everything, removes the owner marker'),
      engineTest('two-hosts/owner', 'a stop takes the marker away'),
    ],
  },
  {
    id: 'garbage-marker-fatal',
    breaks: 'never replaces a marker that can not be understood',
    find: `if (signal.aborted || (isNexusError(error) && error.retryable)) throw error`,
    replace: `if (signal.aborted || isNexusError(error)) throw error`,
    tests: [unitTest('owner', 'the owner marker of a run')],
  },
  {
    id: 'lost-run-beats',
    breaks: 'goes on writing its owner marker when another host has committed',
    find: `void this.owner.stop()`,
    replace: '',
    tests: [unitTest('resolve-tree', 'is certain: the run writes nothing more')],
  },
]
