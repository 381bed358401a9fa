import type { Backend, OpOptions } from '../src/driver.ts'
import { Gate } from '../src/transfer/gate.ts'
import { monotonicProgress } from '../src/transfer/monotonic-progress.ts'
import { pause } from '../src/transfer/waiting.ts'
import type { ManualClock } from '@nexus/host/testing'

/** What the link is like, and the driver over it. */
export interface SlowLinkOptions {
  bytesPerSecond: number
  sizeBytes: number
  /** What the driver lets in at a time; the others wait inside it. */
  slots?: number
  /** An upload is reported as it enters a send buffer of so many bytes, which takes more only when a third is free. */
  sendBufferBytes?: number
  /** The first attempt of each call breaks after so many bytes, and begins again at 0. */
  breaksAfterBytes?: number
}

/** A backend whose transfers share one link. */
export function slowLink(clock: ManualClock, options: SlowLinkOptions): Partial<Backend> {
  const { bytesPerSecond, sizeBytes, sendBufferBytes = 0 } = options
  const gate = new Gate(options.slots ?? 1000)
  let active = 0
  const transfer = async (each: OpOptions = {}, bufferBytes = 0): Promise<void> => {
    const leave = await gate.enter(1, each)
    const progress = monotonicProgress(each.onProgress)
    active++
    try {
      await move(options.breaksAfterBytes ?? 0)
      await move(sizeBytes)
      progress.finished(sizeBytes)
    } finally {
      active--
      leave()
    }
    async function move(bytes: number): Promise<void> {
      progress.begin()
      let handedOver = 0
      for (let delivered = 0; delivered < bytes;) {
        const room = delivered + bufferBytes - handedOver
        if (handedOver < bytes && room >= bufferBytes / 3) {
          const next = Math.min(bytes - handedOver, Math.max(room, 1))
          if (bufferBytes > 0) progress.moved(next)
          handedOver += next
        }
        await pause(1_000, each.signal, clock)
        const arrived = Math.min(bytes - delivered, bytesPerSecond / active)
        delivered += arrived
        if (bufferBytes === 0) progress.moved(arrived)
      }
    }
  }
  return {
    put: (_key, _path, each) => transfer(each, sendBufferBytes),
    get: (_key, _path, each) => transfer(each),
  }
}
