import { silentLogger, systemClock } from '@nexus/engine'
import { EventBus } from '../../../engine/src/bus/event-bus.ts'
import { EventEmitter } from 'eventemitter3'
import type { Bench } from '../bench.ts'
import { alternate, compare, ratePerSecond } from '../measure.ts'
import { against, oursAtLeast, ratioAtLeast } from '../row.ts'

const TYPE = 'bench.event'
const WILDCARDS = 2

interface Payload {
  n: number
  text: string
}

/** Dispatch alone: a payload built per emit, one typed handler and two wildcards, ids and causation filled in. */
export const busBench: Bench = {
  id: 'P1',
  title: 'bus alone, synchronous handlers',
  async run({ quick }) {
    const emits = quick ? 200_000 : 1_000_000
    let seen = 0
    const bus = new EventBus({ sessionId: 'bench', clock: systemClock, logger: silentLogger })
    bus.subscribe<string>(TYPE, (event) => {
      seen += (event.payload as Payload).n
    })
    const emitter = new EventEmitter()
    emitter.on(TYPE, (event: { payload: Payload }) => {
      seen += event.payload.n
    })
    for (let index = 0; index < WILDCARDS; index++) {
      bus.subscribeAll((event) => {
        seen += (event.payload as Payload).n
      })
      emitter.on(TYPE, (event: { payload: Payload }) => {
        seen += event.payload.n
      })
    }
    const samples = await alternate(
      {
        bus: () =>
          ratePerSecond(emits, () => {
            for (let n = 0; n < emits; n++) void bus.emit(TYPE, { n: 1, text: 'x' })
          }),
        emitter: () =>
          ratePerSecond(emits, () => {
            for (let n = 0; n < emits; n++) emitter.emit(TYPE, { type: TYPE, payload: { n: 1, text: 'x' } })
          }),
      },
      { rounds: quick ? 3 : 9 },
    )
    if (seen === 0) throw new Error('no handler ran')
    return [
      {
        id: 'P1',
        what: 'emit, 1 typed + 2 wildcard handlers',
        unit: '/s',
        ...against('eventemitter3', compare(samples.bus, samples.emitter)),
        goals: [oursAtLeast(1_000_000), ratioAtLeast(1 / 8)],
      },
    ]
  },
}
