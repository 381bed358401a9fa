import type { Bench } from './bench.ts'
import { busBench } from './benches/p01-bus.ts'
import { busJournalBench } from './benches/p02-bus-journal.ts'
import { everyEventBench } from './benches/p03-every-event.ts'
import { storageSnapshotBench } from './benches/p04-storage-snapshot.ts'

/** Every bench, in the order of the table. */
export const BENCHES: readonly Bench[] = [busBench, busJournalBench, everyEventBench, storageSnapshotBench]
