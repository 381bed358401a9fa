import type { Clock } from '@nexus/host'

/** Makes a source of RFC 3339 timestamps that formats each millisecond once, however many events fall into it. */
export function createTimestamps(clock: Pick<Clock, 'now'>): () => string {
  let formattedMs = Number.NaN
  let formatted = ''
  return () => {
    const nowMs = clock.now()
    if (nowMs !== formattedMs) {
      formatted = new Date(nowMs).toISOString()
      formattedMs = nowMs
    }
    return formatted
  }
}
