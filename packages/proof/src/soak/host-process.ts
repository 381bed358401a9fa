import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { extname } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import type { HostCommand, HostMessage } from './host-protocol.ts'

/** No run takes longer, kill or not. */
const RUN_LIMIT_MS = 120_000

// Beside this file, with its extension: `.ts` when run from source, `.js` in the build.
const CHILD = fileURLToPath(new URL(`./host-child${extname(import.meta.url)}`, import.meta.url))

/** How a command ended: with a message that says so, or with the process. */
export type Ending = Extract<HostMessage, { kind: 'booted' | 'boot-failed' | 'ended' }> | { kind: 'died'; how: string }

/** A process that plays a host. */
export class HostProcess {
  readonly #child: ChildProcess
  readonly #gone: Promise<Extract<Ending, { kind: 'died' }>>
  #hear: (message: HostMessage) => void = () => undefined
  #stderr = ''
  #silent = false

  constructor() {
    this.#child = fork(CHILD, {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      execArgv: [...process.execArgv, '--expose-gc'],
    })
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.#stderr += text))
    this.#child.on('message', (message) => this.#hear(message as HostMessage))
    this.#gone = this.#watch()
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /**
   * Gives a command and waits for its end.
   *
   * @param isEnd which messages are that
   * @param onMessage called for every other one
   */
  async tell(
    command: HostCommand,
    isEnd: (message: HostMessage) => message is Exclude<Ending, { kind: 'died' }>,
    onMessage: (message: HostMessage) => void,
  ): Promise<Ending> {
    const limit = setTimeout(() => {
      this.#silent = true
      this.kill()
    }, RUN_LIMIT_MS)
    const ended = new Promise<Ending>((resolve) => {
      this.#hear = (message) => (isEnd(message) ? resolve(message) : onMessage(message))
    })
    this.#child.send(command)
    try {
      return await Promise.race([ended, this.#gone])
    } finally {
      clearTimeout(limit)
    }
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }

  async #watch(): Promise<Extract<Ending, { kind: 'died' }>> {
    await once(this.#child, 'close')
    const { signalCode, exitCode } = this.#child
    if (this.#silent) return { kind: 'died', how: `it did not answer within ${RUN_LIMIT_MS / 1000} s` }
    return { kind: 'died', how: signalCode ?? `exit code ${exitCode}\n${this.#stderr}`.trim() }
  }
}
