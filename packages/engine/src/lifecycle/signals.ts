import { constants } from 'node:os'
import process from 'node:process'

const TERMINATION = ['SIGINT', 'SIGTERM'] as const

type Termination = (typeof TERMINATION)[number]

/**
 * Waits for the first SIGINT or SIGTERM and names it. From then on another one ends the process at once, with the exit
 * code that shells give to that signal. Listeners of the embedder are left alone.
 */
export async function untilTerminated(): Promise<Termination> {
  // A promise alone doesn't keep a process alive, and nothing else here may.
  const alive = setInterval(() => undefined, 2 ** 30)
  return await new Promise((resolve) => {
    let isStopping = false
    const onSignal = (signal: Termination): void => {
      if (isStopping) process.exit(128 + constants.signals[signal])
      isStopping = true
      clearInterval(alive)
      resolve(signal)
    }
    for (const signal of TERMINATION) process.on(signal, onSignal)
  })
}
