import type { Row } from './row.ts'
import type { Scratch } from './scratch.ts'

/** What a bench runs with. */
export interface BenchContext {
  readonly scratch: Scratch
  /** Fewer rounds and smaller data: figures to see that all works, not to judge by. */
  readonly quick: boolean
}

/** One number of the table and all its rows. */
export interface Bench {
  /** E.g. `P4`. */
  readonly id: string
  readonly title: string
  run(context: BenchContext): Promise<Row[]>
}
