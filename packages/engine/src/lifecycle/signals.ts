import { constants } from 'node:os'
import process from 'node:process'

const TERMINATION = ['SIGINT', 'SIGTERM'] as const

/** A signal that asks a process to end. */
type Termination = (typeof TERMINATION)[number]

/** Runs of this process that want to hear of a signal. While there is one, the process stays alive. */
const watching = new Set<(signal: Termination) => void>()
let alive: NodeJS.Timeout | undefined
let ending: Termination | undefined

/**
 * Tells one run of the first SIGINT or SIGTERM; all runs of the process share its handlers. Another signal ends the process
 * at once, with the exit code that shells give to it, while a run is still stopping. Listeners of the embedder are left alone.
 *
 * @returns the signal, and what ends the watch: with the last one the handlers go, so that a signal does again what it does by
 *   default
 */
export function watchTermination(): { terminated: Promise<Termination>; release: () => void } {
  if (watching.size === 0) {
    // A promise alone doesn't keep a process alive, and nothing else here may.
    alive = setInterval(() => undefined, 2 ** 30)
    for (const signal of TERMINATION) process.on(signal, onTermination)
  }
  let onSignal!: (signal: Termination) => void
  const terminated = new Promise<Termination>((resolve) => {
    onSignal = resolve
  })
  watching.add(onSignal)
  if (ending !== undefined) onSignal(ending)
  return { terminated, release: () => forget(onSignal) }
}

function forget(onSignal: (signal: Termination) => void): void {
  if (!watching.delete(onSignal) || watching.size > 0) return
  clearInterval(alive)
  ending = undefined
  for (const signal of TERMINATION) process.off(signal, onTermination)
}

function onTermination(signal: Termination): void {
  if (ending !== undefined) process.exit(128 + constants.signals[signal])
  ending = signal
  for (const onSignal of watching) onSignal(signal)
}
