import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ContractHost } from './contract-host.ts'
import type { Death } from './dying-backend.ts'
import { runAndKill, type KilledRun } from './killed-run.ts'
import type { ResumeStore } from './resume-store.ts'
import type { Errand } from './scribe.ts'

/** One case of the suite, as data. */
export interface ResumeCase {
  /** A sentence of behaviour. */
  name: string
  run(lab: ResumeLab): Promise<void>
}

export const SESSION_ID = 'resume-contract'

/** One bucket and any number of hosts that work in it. */
export class ResumeLab {
  readonly store: ResumeStore
  readonly bucket: string
  readonly #dir: string = mkdtempSync(join(tmpdir(), 'nexus-resume-'))
  readonly #label: string
  readonly #unregister: () => void
  readonly #hosts: ContractHost[] = []

  private constructor(store: ResumeStore, bucket: string) {
    this.store = store
    this.bucket = bucket
    this.#label = `resume-contract-${Math.random().toString(36).slice(2)}`
    this.#unregister = store.register(this.#label, (backend) => backend)
  }

  /** Makes the bucket. */
  static async open(store: ResumeStore): Promise<ResumeLab> {
    return new ResumeLab(store, await store.newBucket())
  }

  /** Full key of an object of the suite's session, wherever the store's prefix puts it. */
  async keyOf(suffix: string): Promise<string> {
    const key = (await this.store.keys(this.bucket)).find((each) => each.endsWith(suffix))
    if (key === undefined) throw new Error(`the bucket holds no object that ends in ${suffix}`)
    return key
  }

  /** Where a host of this name has its data. */
  dataRoot(host: string): string {
    return join(this.#dir, host)
  }

  /** Boots a host, has it run errands and kills it; by default after the last of them. */
  async kill(host: string, errands: Errand[], death?: Death): Promise<KilledRun> {
    return await runAndKill(
      this.store,
      this.bucket,
      { sessionId: SESSION_ID, dataRoot: this.dataRoot(host), errands },
      death,
    )
  }

  /** Boots the session on a host; stopped at the end of the case. */
  async resume(host: string): Promise<ContractHost> {
    const resumed = await ContractHost.boot({
      sessionId: SESSION_ID,
      dataRoot: this.dataRoot(host),
      store: this.store.objectStoreConfig(this.#label, this.bucket, 'degrade'),
    })
    this.#hosts.push(resumed)
    return resumed
  }

  /** Stops the hosts and removes their data. The bucket is the store's. */
  async close(): Promise<void> {
    for (const host of this.#hosts) await host.engine.stop()
    this.#unregister()
    rmSync(this.#dir, { recursive: true, force: true })
  }
}
