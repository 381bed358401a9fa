import { EventBus, type EventBusOptions } from '../src/bus/event-bus.ts'
import type { NexusEvent, VetoOutcome } from '../src/bus/event.ts'
import type { EventRecorder } from '../src/bus/recorder.ts'
import type { Logger } from '../src/logger.ts'
import { ManualClock } from './manual-clock.ts'

/** One logged line. */
export interface LoggedLine {
  level: string
  fields: Record<string, unknown>
  message: string
}

/** A logger that keeps its lines. */
export function keepingLogger(): Logger & { lines: LoggedLine[] } {
  const lines: LoggedLine[] = []
  const at =
    (level: string) =>
    (fields: Record<string, unknown>, message: string): void =>
      void lines.push({ level, fields, message })
  return { lines, trace: at('trace'), debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

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

/** A promise with its handles. */
export function gate<T = void>(): { promise: Promise<T>; open: (value: T) => void; fail: (error: unknown) => void } {
  let open!: (value: T) => void
  let fail!: (error: unknown) => void
  const promise = new Promise<T>((resolve, reject) => {
    open = resolve
    fail = reject
  })
  return { promise, open, fail }
}

/** Never settles. */
export const never: Promise<never> = new Promise(() => undefined)
