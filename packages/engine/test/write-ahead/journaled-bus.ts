import { mkdtempSync, rmSync } from 'node:fs'
import nodeFs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ACTIVE_SEGMENT, JournalReader, JournalWriter, type FsyncMode, type JournalEnvelope } from '@nexus/journal'
import { EventBus } from '../../src/bus/event-bus.ts'
import { silentLogger, systemClock } from '@nexus/host'
import { JournalRecorder } from '../../src/event-recorder.ts'

/** A bus over a real journal that notes what a sync has covered. */
export interface JournaledBus {
  bus: EventBus
  journal: JournalWriter
  dir: string
  /** Types in the active segment, as far as an fsync has covered it. */
  durableTypes: () => string[]
  /** Every event that can be read now. */
  read: () => Promise<JournalEnvelope[]>
  close: () => Promise<void>
}

/** Opens a journal in `dir`, or in a directory of its own that `close` removes, and a bus that records to it. */
export async function openJournaledBus(options: { fsync?: FsyncMode; dir?: string } = {}): Promise<JournaledBus> {
  const dir = options.dir ?? mkdtempSync(join(tmpdir(), 'nexus-write-ahead-'))
  const fsync = options.fsync ?? 'turn-boundary'
  let syncedBytes = 0
  const noting =
    (sync: (fd: number, done: (error: NodeJS.ErrnoException | null) => void) => void) =>
    (fd: number, done: (error: NodeJS.ErrnoException | null) => void): void => {
      // What is written while the sync runs need not be covered by it.
      const { size } = nodeFs.fstatSync(fd)
      sync(fd, (error) => {
        if (error === null) syncedBytes = Math.max(syncedBytes, size)
        done(error)
      })
    }
  const fs = { ...nodeFs, fsync: noting(nodeFs.fsync), fdatasync: noting(nodeFs.fdatasync) } as unknown as typeof nodeFs
  const journal = await JournalWriter.open(dir, { fsync, rotateBytes: 2 ** 30, sessionId: 's1', fs })
  const bus = new EventBus({ sessionId: 's1', clock: systemClock, logger: silentLogger })
  bus.setRecorder(new JournalRecorder(journal, { fsync, excludeEvents: ['core.tick'] }))
  return {
    bus,
    journal,
    dir,
    durableTypes: () =>
      nodeFs
        .readFileSync(join(dir, ACTIVE_SEGMENT))
        .subarray(0, syncedBytes)
        .toString()
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => (JSON.parse(line) as JournalEnvelope).type),
    read: () => readAll(dir),
    close: async () => {
      bus.close()
      await journal.close()
      if (options.dir === undefined) rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** Every event of a journal, in order. */
export async function readAll(dir: string): Promise<JournalEnvelope[]> {
  const events: JournalEnvelope[] = []
  for await (const event of await JournalReader.open(dir)) events.push(event)
  return events
}
