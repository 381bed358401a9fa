import { EventBus, type EventBusOptions } from '../src/bus/event-bus.ts'
import type { NexusEvent, VetoOutcome } from '../src/bus/event.ts'
import type { EventRecorder } from '../src/bus/recorder.ts'
import type { Logger } from '@nexus/host'
import { keepingLogger, ManualClock, type LoggedLine } from '@nexus/host/testing'

/** A recorder that keeps what it was handed, numbered like a journal. */
export class KeepingRecorder implements EventRecorder {
  readonly records: { seq: number; event: NexusEvent; outcome: VetoOutcome | undefined }[] = []

  record(event: NexusEvent, outcome?: VetoOutcome): number {
    const seq = this.records.length + 1
    this.records.push({ seq, event, outcome })
    return seq
  }

  get types(): string[] {
    return this.records.map(({ event }) => event.type)
  }
}

/** A bus with everything around it that a test looks at. */
export interface BusFixture {
  bus: EventBus
  clock: ManualClock
  logger: Logger & { lines: LoggedLine[] }
  recorder: KeepingRecorder
}

export function newBus(options: Partial<EventBusOptions> = {}): BusFixture {
  const clock = new ManualClock()
  const logger = keepingLogger()
  const bus = new EventBus({ sessionId: 's1', clock, logger, ...options })
  const recorder = new KeepingRecorder()
  bus.setRecorder(recorder)
  return { bus, clock, logger, recorder }
}
