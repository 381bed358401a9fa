import { HostProcess } from './host-process.ts'

/**
 * The processes of a soak: one that lives through all of it, whose memory is watched, and those that are killed. The next
 * one to be killed starts while the last one works.
 */
export class Hosts {
  readonly steady: HostProcess = new HostProcess()
  #victim: HostProcess = new HostProcess()

  /** A process that may be killed; the same again while it lives. */
  victim(): HostProcess {
    if (!this.#victim.isRunning) this.#victim = new HostProcess()
    return this.#victim
  }

  /** To be called when a victim died. */
  replaceVictim(): void {
    this.victim()
  }

  close(): void {
    this.steady.kill()
    this.#victim.kill()
  }
}
