import type { Bench } from './bench.ts'
import { busBench } from './benches/p01-bus.ts'
import { busJournalBench } from './benches/p02-bus-journal.ts'
import { everyEventBench } from './benches/p03-every-event.ts'
import { storageSnapshotBench } from './benches/p04-storage-snapshot.ts'
import { turnSnapshotBench } from './benches/p05-turn-snapshot.ts'
import { unchangedTurnBench } from './benches/p06-unchanged-turn.ts'
import { hydrationBench } from './benches/p07-hydration.ts'
import { s3Bench } from './benches/p08-s3.ts'
import { blobPutBench } from './benches/p09-blob-put.ts'
import { importBench } from './benches/p10-import.ts'
import { largeFileBench } from './benches/p11-large-file.ts'
import { longJournalBench } from './benches/p12-long-journal.ts'
import { localTurnBench } from './benches/p13-local-turn.ts'
import { rotationBench } from './benches/p14-rotation.ts'
import { pageCaptureBench } from './benches/p15-page-capture.ts'
import { besideToolsBench } from './benches/p20-beside-tools.ts'

/** Every bench, in the order of the table. */
export const BENCHES: readonly Bench[] = [
  busBench,
  busJournalBench,
  everyEventBench,
  storageSnapshotBench,
  turnSnapshotBench,
  unchangedTurnBench,
  hydrationBench,
  s3Bench,
  blobPutBench,
  importBench,
  largeFileBench,
  longJournalBench,
  localTurnBench,
  rotationBench,
  pageCaptureBench,
  besideToolsBench,
]
