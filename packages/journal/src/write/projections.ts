import type { Logger } from '@nexus/host'
import type { ProjectionHandler } from '../read/project-file.ts'
import { decodeLine, type JournalEnvelope } from '../format/record.ts'

interface Projection {
  types: ReadonlySet<string>
  handler: ProjectionHandler
}

/** Hands written events to those who subscribed to their types, as they will be read back from the file. */
export class Projections {
  readonly #logger: Logger
  readonly #projections = new Set<Projection>()
  #waiting: { seq: number; type: string; line: string }[] = []
  #delivering = false
  #writtenSeq = 0

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Events appended from now on go to `handler`. */
  subscribe(types: Iterable<string>, handler: ProjectionHandler): () => void {
    const projection = { types: new Set(types), handler }
    this.#projections.add(projection)
    return () => void this.#projections.delete(projection)
  }

  /** Keeps a line until it is written, when somebody wants it. */
  note(seq: number, line: string): void {
    if (this.#projections.size === 0) return
    // From the line, not from the record, whose fields may be anything, throwing getters included.
    const type = typeOf(line)
    for (const projection of this.#projections) {
      if (projection.types.has(type)) {
        this.#waiting.push({ seq, type, line })
        return
      }
    }
  }

  /** Delivers what has been written up to `seq`. What a handler appends meanwhile is delivered afterwards, in order. */
  deliver(seq: number): void {
    this.#writtenSeq = seq
    if (this.#delivering || this.#waiting.length === 0) return
    this.#delivering = true
    let next = 0
    for (; next < this.#waiting.length; next++) {
      const waiting = this.#waiting[next]
      if (!waiting || waiting.seq > this.#writtenSeq) break
      this.#hand(waiting)
    }
    this.#waiting.splice(0, next)
    this.#delivering = false
  }

  #hand({ type, line }: { type: string; line: string }): void {
    for (const { types, handler } of this.#projections) {
      if (!types.has(type)) continue
      const envelope = decodeLine(line)
      if (envelope) this.#call(handler, envelope)
    }
  }

  #call(handler: ProjectionHandler, envelope: JournalEnvelope): void {
    const failed = (err: unknown): void =>
      this.#logger.error({ err, seq: envelope.seq, type: envelope.type }, 'a projection handler failed')
    try {
      const result: unknown = handler(envelope)
      if (result instanceof Promise) result.catch(failed)
    } catch (error) {
      failed(error)
    }
  }
}

const TYPE = /"type":"([^"\\]*)"/

function typeOf(line: string): string {
  return TYPE.exec(line.slice(0, 512))?.[1] ?? decodeLine(line)?.type ?? ''
}
