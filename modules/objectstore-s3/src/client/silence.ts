/** Ends an upload that has gone silent. */
export interface SilenceWatch {
  /** Something moved. */
  moved(): void
  stop(): void
}

/**
 * Aborts an attempt when nothing moves for too long. Not the socket's own timeout, because after the last byte an upload is as
 * long silent as its bytes, and those of its neighbours, take to leave this host.
 *
 * @param limitMs asked anew whenever the last answer has run out
 */
export function watchSilence(limitMs: () => number, attempt: AbortController): SilenceWatch {
  let movedMs = performance.now()
  let timer: NodeJS.Timeout | undefined
  const arm = (): void => {
    const leftMs = movedMs + limitMs() - performance.now()
    if (leftMs > 0) {
      timer = setTimeout(arm, Math.ceil(leftMs))
      return
    }
    const error = new Error(`nothing moved for ${Math.round((performance.now() - movedMs) / 1000)} s`)
    attempt.abort(Object.assign(error, { name: 'TimeoutError' }))
  }
  arm()
  return {
    moved: () => void (movedMs = performance.now()),
    stop: () => clearTimeout(timer),
  }
}
