import { constants } from 'node:os'
import process from 'node:process'

const TERMINATION = ['SIGINT', 'SIGTERM'] as const

/**
 * Waits for the first SIGINT or SIGTERM and names it. From then on a second one ends the process at once, with the exit
 * code that shells give to that signal.
 */
export async function untilTerminated(): Promise<(typeof TERMINATION)[number]> {
  // A promise alone doesn't keep a process alive, and nothing else here may.
  const alive = setInterval(() => undefined, 2 ** 30)
  return await new Promise((resolve) => {
    for (const signal of TERMINATION) {
      process.once(signal, () => {
        clearInterval(alive)
        for (const each of TERMINATION) {
          process.removeAllListeners(each)
          process.on(each, () => process.exit(128 + constants.signals[each]))
        }
        resolve(signal)
      })
    }
  })
}
