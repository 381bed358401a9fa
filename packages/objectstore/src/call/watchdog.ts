import type { Clock, TimerHandle } from '@nexus/host'
import type { Progress } from '../driver.ts'
import type { Deadlines } from './limits.ts'

/** What is known of a call when it begins. */
export interface WatchedCall {
  /** How much it is known to move. */
  expected: Progress
  /** Whether it sends: what it reports may still lie in this machine's send buffers. */
  isUpload: boolean
  /** Bytes per second. */
  minRate: number
}

/**
 * What a kernel takes in for one connection before the peer has seen any of it: a whole small object, so that nothing more is
 * reported until the store answers; and of a large one it takes the next part only when a third of it is free again.
 */
const SEND_BUFFER_BYTES = 4 * 1024 * 1024

/** Calls of this process that hold their turn. They share one link, whichever store they belong to. */
let callsInFlight = 0

/**
 * Watches one call; fires once, when it has failed.
 *
 * A call that reports has a budget of time. It runs out as time passes, and bytes that move buy new time at the slowest
 * accepted rate, which the calls in flight share; a finished object fills it up. So a call that moves goes on however long it
 * takes, and one that falls `idleMs` behind ends. A call that never reports has a fixed time for its size.
 *
 * While the call waits for its turn, nothing counts. Time is what passes between setting a timer and its firing, by the
 * clock where a report comes first: a clock that is set in the middle costs at most one budget, which the next bytes refill.
 */
export class Watchdog {
  readonly #clock: Clock
  readonly #deadlines: Deadlines
  readonly #call: WatchedCall
  readonly #onExpired: (problem: string) => void
  #moved: Required<Progress> = { objects: 0, bytes: 0, repeatedBytes: 0 }
  #reported = false
  #leftMs: number
  #spentMs = 0
  #mostInFlight = 0
  #waits = 0
  #timer: { handle: TimerHandle; atMs: number; delayMs: number } | undefined
  #stopped = false

  constructor(clock: Clock, deadlines: Deadlines, call: WatchedCall, onExpired: (problem: string) => void) {
    this.#clock = clock
    this.#deadlines = deadlines
    this.#call = call
    this.#onExpired = onExpired
    callsInFlight++
    this.#leftMs = this.#silentMs()
    this.#arm()
  }

  /** Notes the driver's totals. Totals that did not grow are no progress. */
  progress({ objects, bytes, repeatedBytes = 0 }: Progress): void {
    const before = this.#moved
    const grown = Math.max(0, bytes - before.bytes) + Math.max(0, repeatedBytes - before.repeatedBytes)
    const finished = objects > before.objects
    if (!finished && !(grown > 0)) return
    this.#moved = {
      objects: Math.max(objects, before.objects),
      bytes: Math.max(bytes, before.bytes),
      repeatedBytes: Math.max(repeatedBytes, before.repeatedBytes),
    }
    this.#disarm()
    const most = this.#deadlines.idleMs + this.#undeliveredMs()
    const boughtMs = (grown / this.#call.minRate) * 1000 * Math.max(callsInFlight, 1)
    this.#leftMs = finished || !this.#reported ? most : Math.min(most, Math.max(this.#leftMs, 0) + boughtMs)
    this.#reported = true
    this.#arm()
  }

  /** The call waits for its turn until the returned function is called. */
  wait(): () => void {
    if (this.#waits++ === 0 && !this.#stopped) {
      this.#disarm()
      callsInFlight--
    }
    let over = false
    return () => {
      if (over) return
      over = true
      if (--this.#waits > 0 || this.#stopped) return
      callsInFlight++
      this.#arm()
    }
  }

  /** Ends the watch; its timer is cleared. */
  stop(): void {
    if (this.#stopped) return
    this.#stopped = true
    this.#disarm()
    if (this.#waits === 0) callsInFlight--
  }

  #arm(): void {
    if (this.#waits > 0 || this.#stopped) return
    const delayMs = Math.max(1, Math.ceil(this.#leftMs))
    const handle = this.#clock.setTimeout(() => this.#onTimer(delayMs), delayMs)
    this.#timer = { handle, atMs: this.#clock.now(), delayMs }
  }

  #disarm(): void {
    if (this.#timer === undefined) return
    const { handle, atMs, delayMs } = this.#timer
    this.#timer = undefined
    this.#clock.clearTimeout(handle)
    this.#spend(Math.min(Math.max(this.#clock.now() - atMs, 0), delayMs))
  }

  #onTimer(delayMs: number): void {
    this.#timer = undefined
    this.#spend(delayMs)
    // More calls may have joined since: what a silent one may take has grown.
    if (!this.#reported) this.#leftMs = this.#silentMs() - this.#spentMs
    if (this.#leftMs > 0) return this.#arm()
    const behind = `too slow: ${seconds(this.#deadlines.idleMs)} behind ${this.#call.minRate / 1024} KiB/s`
    const problem = this.#reported
      ? `${behind} after ${this.#moved.bytes} bytes`
      : `not finished after ${seconds(this.#spentMs)}`
    this.stop()
    this.#onExpired(problem)
  }

  #spend(ms: number): void {
    this.#leftMs -= ms
    this.#spentMs += ms
  }

  #silentMs(): number {
    const { baseMs, bytesPerSecond, perObjectMs } = this.#deadlines
    const { bytes, objects } = this.#call.expected
    this.#mostInFlight = Math.max(this.#mostInFlight, callsInFlight)
    return Math.ceil(baseMs + (bytes / bytesPerSecond) * 1000 * this.#mostInFlight + objects * perObjectMs)
  }

  /** What the bytes that may lie in send buffers take at the rate that was seen, or the slowest one. */
  #undeliveredMs(): number {
    if (!this.#call.isUpload) return 0
    const sent = this.#moved.bytes + this.#moved.repeatedBytes
    const seenRate = this.#spentMs === 0 ? 0 : (Math.max(0, sent - SEND_BUFFER_BYTES) / this.#spentMs) * 1000
    return (Math.min(sent, SEND_BUFFER_BYTES) / Math.max(seenRate, this.#call.minRate)) * 1000
  }
}

function seconds(ms: number): string {
  return `${Math.round(ms / 100) / 10} s`
}
