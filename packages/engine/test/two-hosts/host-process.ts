import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { CommandName, HostCommands, HostMessage, RemoteError } from './host-protocol.ts'

type EventMessage = Extract<HostMessage, { kind: 'event' }>
type LogMessage = Extract<HostMessage, { kind: 'log' }>

interface Pending {
  resolve: (gives: unknown) => void
  reject: (error: Error) => void
}

const CHILD = fileURLToPath(new URL('./host-child.ts', import.meta.url))

/** What a host failed with. */
export class HostError extends Error {
  readonly code: string | undefined
  readonly fields: Record<string, unknown>

  constructor({ name, message, code, fields }: RemoteError) {
    super(message)
    this.name = name
    this.code = code
    this.fields = fields
  }
}

/** A host process in the hands of a test. What it says is kept until {@link HostProcess.reset}. */
export class HostProcess {
  readonly events: EventMessage[] = []
  readonly lines: LogMessage[] = []
  readonly #child: ChildProcess
  readonly #pending = new Map<number, Pending>()
  readonly #waiting = new Set<() => void>()
  readonly #exit: Promise<unknown>
  readonly #ready: Promise<void>
  #isReady = false
  #held: string[] = []
  #stderr = ''
  #requests = 0

  /** Starts the process; it need not be waited for. */
  constructor() {
    this.#child = fork(CHILD, { stdio: ['ignore', 'inherit', 'pipe', 'ipc'] })
    this.#exit = once(this.#child, 'close')
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.#stderr += text))
    this.#child.on('message', (message) => this.#hear(message as HostMessage))
    this.#child.once('close', () => this.#end())
    this.#ready = this.until(() => this.#isReady)
    this.#ready.catch(() => undefined)
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  /** @throws HostError what the command failed with; an Error when the process ends before it answers */
  async tell<C extends CommandName>(command: C, takes: HostCommands[C]['takes']): Promise<HostCommands[C]['gives']> {
    await this.#ready
    const id = ++this.#requests
    return await new Promise<HostCommands[C]['gives']>((resolve, reject) => {
      if (!this.#child.connected) return reject(this.#gone())
      this.#pending.set(id, { resolve: resolve as Pending['resolve'], reject })
      this.#child.send({ id, command, takes })
    })
  }

  /** Resolves when the condition on what the host said holds. Rejects when the process ends before. */
  async until(holds: () => boolean): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const look = (): void => {
        if (holds()) resolve()
        else if (!this.isRunning) reject(this.#gone())
        else return
        this.#waiting.delete(look)
      }
      this.#waiting.add(look)
      look()
    })
  }

  /** Resolves when the host waits at the failpoint. */
  async reaches(failpoint: string): Promise<void> {
    await this.until(() => this.#held.includes(failpoint))
  }

  /** SIGKILL; resolves when the process is gone. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#exit
  }

  /** Resolves when the process has ended by itself. */
  async died(): Promise<void> {
    await this.#exit
  }

  /** SIGSTOP; resolves when the kernel says that it stands still. */
  async freeze(): Promise<void> {
    this.#child.kill('SIGSTOP')
    while (!this.#isStopped()) await new Promise((resolve) => setImmediate(resolve))
  }

  /** SIGCONT. */
  thaw(): void {
    this.#child.kill('SIGCONT')
  }

  /** Makes it a host without a past. */
  async reset(): Promise<void> {
    await this.tell('reset', {})
    this.events.length = 0
    this.lines.length = 0
    this.#held = []
  }

  #isStopped(): boolean {
    const stat = readFileSync(`/proc/${this.pid}/stat`, 'utf8')
    return /^T/i.test(stat.slice(stat.lastIndexOf(')') + 2))
  }

  #hear(message: HostMessage): void {
    if (message.kind === 'ready') this.#isReady = true
    else if (message.kind === 'event') this.events.push(message)
    else if (message.kind === 'log') this.lines.push(message)
    else if (message.kind === 'held') this.#held.push(message.failpoint)
    else {
      const pending = this.#pending.get(message.id)
      this.#pending.delete(message.id)
      if (message.kind === 'answer') pending?.resolve(message.gives)
      else pending?.reject(new HostError(message.error))
    }
    for (const look of this.#waiting) look()
  }

  #end(): void {
    for (const { reject } of this.#pending.values()) reject(this.#gone())
    this.#pending.clear()
    for (const look of this.#waiting) look()
  }

  #gone(): Error {
    const how = this.#child.signalCode ?? `exit code ${this.#child.exitCode}`
    return new Error(`the host process ended (${how})\n${this.#stderr}`.trim())
  }
}

const idle: HostProcess[] = []

/** A process that does nothing yet. Starting one takes long, so the next is begun at the same time. */
export function takeProcess(): HostProcess {
  const process = idle.pop() ?? new HostProcess()
  if (idle.length === 0) idle.push(new HostProcess())
  return process
}

/** Takes a process back, for another test. */
export async function giveBack(process: HostProcess): Promise<void> {
  if (!process.isRunning) return
  process.thaw()
  await process.reset()
  idle.push(process)
}

/** Ends all that are left. */
export async function endProcesses(): Promise<void> {
  await Promise.all(idle.splice(0).map((process) => process.kill()))
}
