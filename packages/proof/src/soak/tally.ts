import { FAULT_KINDS, type FaultKind } from './faulty-backend.ts'
import type { RunCounts } from './host-protocol.ts'

interface MemorySample {
  atMs: number
  rssBytes: number
  heapBytes: number
}

/** What a soak did. */
export class Tally {
  sessions = 0
  resumes = 0
  hydrated = 0
  setAside = 0
  mixed = 0
  undecided = 0
  lost = 0
  reboots = 0
  failedBoots = 0
  turns = 0
  deeds = 0
  kills = 0
  readonly killedAt: Set<string> = new Set()
  backendCalls = 0
  outages = 0
  recoveries = 0
  readonly faults: Record<FaultKind, number> = { refuse: 0, 'lose-answer': 0, hang: 0, slow: 0 }
  readonly memory: MemorySample[] = []
  readonly #startedMs = performance.now()

  add({ backendCalls, faults, outages, recoveries }: RunCounts): void {
    this.backendCalls += backendCalls
    this.outages += outages
    this.recoveries += recoveries
    for (const kind of FAULT_KINDS) this.faults[kind] += faults[kind]
  }

  sample(rssBytes: number, heapBytes: number): void {
    this.memory.push({ atMs: performance.now() - this.#startedMs, rssBytes, heapBytes })
  }

  /** Lines for people. */
  report(): string[] {
    const { refuse, hang, slow } = this.faults
    const elapsedSeconds = Math.round((performance.now() - this.#startedMs) / 1000)
    return [
      `${this.sessions} sessions, ${this.resumes} resumes checked, ${this.turns} turns with ${this.deeds} deeds, ` +
        `${this.backendCalls} backend calls in ${elapsedSeconds} s`,
      `resumes: ${this.hydrated} restored from the bucket, ${this.resumes - this.hydrated} on a warm tree, ` +
        `${this.setAside} trees set aside, ${this.undecided} while the store could not be asked, ${this.lost} sessions found lost, ` +
        `${this.mixed} with objects reported as mixed`,
      `survived: ${this.kills} kills (at ${this.killedAt.size} failpoints), ${this.reboots} power losses, ` +
        `${this.failedBoots} boots without a store, ${this.outages} outages of which ${this.recoveries} ended in their run`,
      `faults met: ${refuse} calls refused, ${this.faults['lose-answer']} answers lost, ${hang} never answered, ${slow} slow`,
      ...this.#memoryLines(),
    ]
  }

  /** Whether the process that lived through all of it needed much more memory at the end than in the middle. */
  get hasGrown(): boolean {
    const [, middle, end] = this.#memoryMarks()
    if (middle === undefined || end === undefined) return false
    return end.rssBytes > middle.rssBytes * 1.25 + 32 * MIB
  }

  #memoryLines(): string[] {
    const marks = this.#memoryMarks()
    const names = ['start', 'middle', 'end']
    if (marks.length < names.length) return []
    const text = marks.map(
      ({ rssBytes, heapBytes }, at) => `${names[at]} ${mib(rssBytes)} MiB (heap ${mib(heapBytes)})`,
    )
    return [`memory of the process that lived through all of it: ${text.join(', ')}`]
  }

  /** After warming up, in the middle, and at the end: each the least of a few samples, since garbage comes and goes. */
  #memoryMarks(): MemorySample[] {
    const warm = this.memory.slice(WARM_UP_SAMPLES)
    if (warm.length < 3 * FEW) return []
    const half = Math.floor(warm.length / 2)
    return [warm.slice(0, FEW), warm.slice(half, half + FEW), warm.slice(-FEW)].map(leanest)
  }
}

const MIB = 1024 * 1024
const WARM_UP_SAMPLES = 10
const FEW = 5

function leanest(samples: readonly MemorySample[]): MemorySample {
  return samples.toSorted((a, b) => a.rssBytes - b.rssBytes)[0] as MemorySample
}

function mib(bytes: number): number {
  return Math.round(bytes / MIB)
}
