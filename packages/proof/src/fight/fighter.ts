import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { FightMessage, FightOrder } from './fight-protocol.ts'

const CHILD = ['.js', '.ts']
  .map((ending) => fileURLToPath(new URL(`./fighter-child${ending}`, import.meta.url)))
  .find((path) => existsSync(path)) as string

/** One of the processes that fight, from the outside. */
export class Fighter {
  readonly #order: Omit<FightOrder, 'life'>
  readonly #hear: (message: FightMessage) => void
  #process: ChildProcess
  #life = 0
  #stopped = false

  constructor(order: Omit<FightOrder, 'life'>, hear: (message: FightMessage) => void) {
    this.#order = order
    this.#hear = hear
    this.#process = this.#start()
  }

  get isStopped(): boolean {
    return this.#stopped
  }

  /** SIGSTOP: it stands still in the middle of whatever it does. */
  stop(): void {
    this.#stopped = true
    this.#process.kill('SIGSTOP')
  }

  continue(): void {
    this.#stopped = false
    this.#process.kill('SIGCONT')
  }

  /** SIGKILL; its successor is another process over the same data root. */
  async replace(): Promise<void> {
    await this.kill()
    this.#process = this.#start()
  }

  async kill(): Promise<void> {
    this.#stopped = false
    const { exitCode, signalCode } = this.#process
    if (exitCode !== null || signalCode !== null) return
    const exited = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await exited
  }

  #start(): ChildProcess {
    const order: FightOrder = { ...this.#order, life: ++this.#life }
    const child = fork(CHILD, [JSON.stringify(order)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    child.on('message', (message) => this.#hear(message as FightMessage))
    return child
  }
}
