import { createHash } from 'node:crypto'
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { StoreInput } from '../../src/index.ts'
import { sessionKeys, type Manifest } from '../../src/manifest.ts'
import { machineRecordPath } from '@nexus/durability'
import { giveBack, takeProcess, type HostProcess } from './host-process.ts'
import type { FaultRule, HostCommands, SessionView } from './host-protocol.ts'

export const SESSION = 's1'

type StorePolicy = Omit<StoreInput, 'backend' | 'bucket'>
type Payload = Record<string, unknown>

/** A machine: a data root that stays, and the process that runs on it now. */
export class Machine {
  readonly dataRoot: string
  readonly #bucket: string
  #process: HostProcess | undefined

  constructor(dataRoot: string, bucket: string) {
    this.dataRoot = dataRoot
    this.#bucket = bucket
  }

  get sessionsRoot(): string {
    return join(this.dataRoot, 'sessions')
  }

  get process(): HostProcess {
    return (this.#process ??= takeProcess())
  }

  /** Boots the session in a process of its own, that of an earlier run if it lives. */
  async boot(store: StorePolicy = {}): Promise<SessionView> {
    return await this.process.tell('boot', {
      sessionId: SESSION,
      dataRoot: this.dataRoot,
      bucket: this.#bucket,
      store,
    })
  }

  /** One turn per input; resolves when the boundaries of all are over. */
  async input(...contents: string[]): Promise<HostCommands['input']['gives']> {
    let outcome: HostCommands['input']['gives'] = { accepted: true }
    for (const content of contents) outcome = await this.process.tell('input', { content })
    return outcome
  }

  async commit(): Promise<number> {
    return (await this.process.tell('commit', {})).generation
  }

  async look(): Promise<SessionView> {
    return await this.process.tell('look', {})
  }

  async suffer(...rules: FaultRule[]): Promise<void> {
    await this.process.tell('faults', { rules })
  }

  async heal(): Promise<void> {
    await this.suffer()
  }

  async stop(): Promise<void> {
    await this.process.tell('stop', {})
  }

  /** The next input ends in a SIGKILL at the failpoint; resolves when the process is gone. */
  async dieAt(failpoint: string, content: string): Promise<void> {
    const { process } = this
    await process.tell('kill-at', { failpoint, visit: 1 })
    process.tell('input', { content }).catch(() => undefined)
    await process.died()
    this.#process = undefined
  }

  /** SIGKILL, from outside. */
  async kill(): Promise<void> {
    await this.process.kill()
    this.#process = undefined
  }

  /** Lets another process run on this machine from now on; the old one lives on. */
  replaceProcess(): HostProcess {
    const old = this.process
    this.#process = undefined
    return old
  }

  /** Payloads of the events of a type that this process raised. */
  seen(type: string): Payload[] {
    return this.process.events.filter((event) => event.type === type).map(({ payload }) => payload)
  }

  /** Resolves with the payload when one was raised. */
  async raises(type: string): Promise<Payload> {
    await this.process.until(() => this.seen(type).length > 0)
    return this.seen(type)[0] ?? {}
  }

  logged(level: string): string[] {
    return this.process.lines.filter((line) => line.level === level).map(({ message }) => message)
  }

  /** Trees that were set aside here. */
  setAside(): string[] {
    return readdirSync(this.sessionsRoot)
      .filter((name) => name.startsWith('.stale-'))
      .map((name) => join(this.sessionsRoot, name))
  }

  /** Whatever the machine remembers of the session was written in another boot of it: as after a power loss. */
  reboot(): void {
    const path = machineRecordPath(this.sessionsRoot, SESSION)
    const [head = '', ...tail] = readFileSync(path, 'utf8').split('\n')
    const record = { ...(JSON.parse(head) as object), boot_id: '00000000-0000-4000-8000-000000000000' }
    writeFileSync(path, [JSON.stringify(record), ...tail].join('\n'))
  }

  /** Content of a file of the session's tree. */
  read(path: string, dir: string = join(this.sessionsRoot, SESSION)): string {
    return readFileSync(join(dir, path), 'utf8')
  }

  write(path: string, text: string): void {
    writeFileSync(join(this.sessionsRoot, SESSION, path), text)
  }

  async leave(): Promise<void> {
    if (this.#process !== undefined) await giveBack(this.#process)
  }
}

/** One `fs` bucket and the machines that share it. */
export class TwoHosts {
  readonly dir: string = mkdtempSync(join(tmpdir(), 'nexus-two-hosts-'))
  readonly bucket: string = join(this.dir, 'bucket')
  readonly #machines: Machine[] = []
  readonly a: Machine = this.machine('a')
  readonly b: Machine = this.machine('b')

  constructor() {
    mkdirSync(this.bucket)
  }

  /** A machine that has never seen the session. */
  machine(name: string): Machine {
    const machine = new Machine(join(this.dir, name), this.bucket)
    this.#machines.push(machine)
    return machine
  }

  /** What a machine that has never seen the session makes of the bucket. */
  async resumedElsewhere(name = 'elsewhere'): Promise<SessionView> {
    const machine = this.machine(name)
    const view = await machine.boot()
    await machine.process.reset()
    return view
  }

  get manifest(): Manifest {
    return JSON.parse(readFileSync(this.#path(sessionKeys(SESSION).manifest), 'utf8')) as Manifest
  }

  get owner(): Record<string, unknown> | undefined {
    try {
      return JSON.parse(readFileSync(this.#path(sessionKeys(SESSION).owner), 'utf8')) as Record<string, unknown>
    } catch {
      return undefined
    }
  }

  /** Makes the owner marker say something else, as if another machine had written it. */
  forgeOwner(change: Record<string, unknown>): void {
    writeFileSync(this.#path(sessionKeys(SESSION).owner), JSON.stringify({ ...this.owner, ...change }))
  }

  /** Every object with its time of writing and digest. */
  objects(): Record<string, string> {
    const files = readdirSync(this.bucket, { recursive: true, encoding: 'utf8' }).toSorted()
    return Object.fromEntries(
      files
        .map((path) => [path, lstatSync(join(this.bucket, path), { bigint: true })] as const)
        .filter(([, stats]) => stats.isFile())
        .map(([path, stats]) => {
          const digest = createHash('sha256')
            .update(readFileSync(join(this.bucket, path)))
            .digest('hex')
          return [path, `${stats.mtimeNs} ${digest}`]
        }),
    )
  }

  async close(): Promise<void> {
    for (const machine of this.#machines) await machine.leave()
    rmSync(this.dir, { recursive: true, force: true })
  }

  #path(key: string): string {
    return join(this.bucket, key)
  }
}
