import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Turn } from './deed.ts'
import type { Ending, HostProcess } from './host-process.ts'
import type { BootOrder, HostMessage } from './host-protocol.ts'
import type { Hosts } from './hosts.ts'
import { inventTurn } from './invent-turn.ts'
import { judgeBoot, type BootReport } from './judge-boot.ts'
import { planEpisode, type EpisodePlan } from './plan-episode.ts'
import { SeededRandom } from './seeded-random.ts'
import { SessionModel } from './session-model.ts'
import { after } from './session-state.ts'
import type { Tally } from './tally.ts'

export interface LifeOptions {
  seed: number
  /** An empty directory for the bucket and the hosts' disks. */
  dir: string
  hosts: Hosts
  failpoints: readonly string[]
  tally: Tally
}

const EPISODES = { least: 4, most: 12 }
/** Small enough that a life rotates its journal several times. */
const ROTATE_SIZE_MB = 0.02

/** The life of one session: runs on several hosts, with outages and kills, each resume held against the model. */
export class Life {
  readonly #options: LifeOptions
  readonly #random: SeededRandom
  readonly #model = new SessionModel()
  readonly #sessionId: string
  readonly #bucket: string
  /** Hosts that have run the session. */
  readonly #known: string[] = []
  #turnCount = 0

  constructor(options: LifeOptions) {
    this.#options = options
    this.#random = new SeededRandom(options.seed)
    this.#sessionId = `soak-${options.seed}`
    this.#bucket = join(options.dir, 'bucket')
    mkdirSync(this.#bucket)
  }

  /** Runs it. What is wrong is returned, with the run in which it was found; nothing of that sort throws. */
  async run(): Promise<string[]> {
    const { failpoints, tally } = this.#options
    tally.sessions += 1
    for (let left = this.#random.between(EPISODES.least, EPISODES.most); left > 0; left -= 1) {
      const plan = planEpisode(this.#random, this.#known, failpoints)
      const problems = await this.#episode(plan)
      if (problems.length > 0) return [`on ${describe(plan)}`, ...problems]
    }
    const last: EpisodePlan = {
      host: 'last',
      reboot: false,
      policy: 'degrade',
      faults: [],
      kill: undefined,
      turns: 1,
      end: 'stop',
    }
    const problems = await this.#episode(last)
    return problems.length > 0 ? ['on a host that never saw the session, at the end', ...problems] : []
  }

  async #episode(plan: EpisodePlan): Promise<string[]> {
    const { hosts, tally } = this.#options
    if (!this.#known.includes(plan.host)) this.#known.push(plan.host)
    if (plan.reboot) this.#losePower(plan.host)
    const process = plan.kill === undefined ? hosts.steady : hosts.victim()
    const booted = await this.#boot(process, plan)
    if (Array.isArray(booted)) return booted
    if (booted === undefined) return []
    const model = this.#model
    const tree = model.trees.get(plan.host)
    const mayBeLost = booted.undecided && tree !== undefined && model.overtaken(plan.host, tree) !== 'no'
    const verdict = judgeBoot(model, plan.host, booted)
    tally.resumes += 1
    if (verdict.hydrated) tally.hydrated += 1
    if (booted.setAside) tally.setAside += 1
    if (booted.mixed !== undefined) tally.mixed += 1
    if (booted.undecided) tally.undecided += 1
    if (verdict.problems.length > 0) return verdict.problems
    model.booted(plan.host, verdict.state, verdict.knows)
    return await this.#work(process, plan, mayBeLost)
  }

  /** What the host found; undefined when it died on the way, problems when it failed without a reason. */
  async #boot(process: HostProcess, plan: EpisodePlan): Promise<BootReport | string[] | undefined> {
    const { tally } = this.#options
    const { kill } = plan
    const order: BootOrder = {
      sessionId: this.#sessionId,
      dataRoot: this.#dataRoot(plan.host),
      bucket: this.#bucket,
      policy: plan.policy,
      rotateSizeMb: ROTATE_SIZE_MB,
      faults: plan.faults,
      ...(kill?.how === 'failpoint' ? { killAt: kill } : {}),
    }
    const timer = kill?.how === 'booting' ? setTimeout(() => process.kill(), kill.afterMs) : undefined
    const problems: string[] = []
    const ending = await process.tell({ kind: 'boot', order }, isBootEnd, (message) => {
      if (message.kind === 'trouble') problems.push(message.error)
    })
    clearTimeout(timer)
    if (problems.length > 0) return problems
    if (ending.kind === 'booted') return ending.report
    this.#model.diedBooting(plan.host, existsSync(this.#treeOf(plan.host)))
    if (ending.kind === 'died') return this.#buried(ending, plan)
    if (ending.kind === 'boot-failed' && ending.faulted) {
      tally.failedBoots += 1
      return await this.#boot(process, { ...plan, faults: [], kill: undefined })
    }
    return [`it did not boot: ${ending.kind === 'boot-failed' ? ending.error : ending.kind}`]
  }

  async #work(process: HostProcess, plan: EpisodePlan, mayBeLost: boolean): Promise<string[]> {
    const { tally } = this.#options
    const { host, end, kill } = plan
    const model = this.#model
    const turns = this.#inventTurns(plan.turns)
    const problems: string[] = []
    const ahead = [...turns]
    let lost = false
    const timer = kill?.how === 'working' ? setTimeout(() => process.kill(), kill.afterMs) : undefined
    const ending = await process.tell({ kind: 'work', turns, end }, isWorkEnd, (message) => {
      if (message.kind === 'boundary') {
        const turn = ahead.shift()
        if (turn?.id !== message.turnId) problems.push(`turn ${message.turnId} ended where ${turn?.id} was due`)
        else model.turnEnded(turn)
        tally.turns += 1
        tally.deeds += turn?.deeds.length ?? 0
      } else if (message.kind === 'lost') {
        lost = true
        tally.lost += 1
        if (!mayBeLost) problems.push('it found its session lost, and nobody else had committed')
      } else if (message.kind === 'committing' || message.kind === 'committed') {
        if (lost) problems.push(`it went on ${message.kind} after it had lost its session`)
        else model[message.kind](host)
      } else if (message.kind === 'trouble') problems.push(message.error)
    })
    clearTimeout(timer)
    if (ending.kind === 'died') {
      model.died(host, ahead)
      return [...problems, ...(this.#buried(ending, plan) ?? [])]
    }
    model.stopped(host, { clean: end === 'stop' })
    if (ending.kind === 'ended') {
      tally.add(ending.counts)
      if (kill === undefined) tally.sample(ending.rssBytes, ending.heapBytes)
    }
    return problems
  }

  /** Counts a death that was meant; any other is a problem. */
  #buried({ how }: Extract<Ending, { kind: 'died' }>, { kill }: EpisodePlan): string[] | undefined {
    const { tally, hosts } = this.#options
    hosts.replaceVictim()
    if (how !== 'SIGKILL' || kill === undefined) return [`the host process ended by itself (${how})`]
    tally.kills += 1
    if (kill.how === 'failpoint') tally.killedAt.add(kill.failpoint)
    return undefined
  }

  #inventTurns(count: number): Turn[] {
    let state = this.#model.current
    return Array.from({ length: count }, () => {
      const turn = inventTurn(`turn-${(this.#turnCount += 1)}`, state, this.#random)
      for (const deed of turn.deeds) state = after(state, deed)
      return turn
    })
  }

  /** Whatever the machine remembers of the session was written in another boot of it. */
  #losePower(host: string): void {
    const path = join(this.#dataRoot(host), 'sessions', '.machine', `${this.#sessionId}.jsonl`)
    if (!existsSync(path)) return
    const [head = '', ...tail] = readFileSync(path, 'utf8').split('\n')
    const record = { ...(JSON.parse(head) as object), boot_id: 'an-earlier-boot' }
    writeFileSync(path, [JSON.stringify(record), ...tail].join('\n'))
    this.#model.rebooted(host)
    this.#options.tally.reboots += 1
  }

  #dataRoot(host: string): string {
    return join(this.#options.dir, host)
  }

  #treeOf(host: string): string {
    return join(this.#dataRoot(host), 'sessions', this.#sessionId)
  }
}

function isBootEnd(message: HostMessage): message is Extract<HostMessage, { kind: 'booted' | 'boot-failed' }> {
  return message.kind === 'booted' || message.kind === 'boot-failed'
}

function isWorkEnd(message: HostMessage): message is Extract<HostMessage, { kind: 'ended' }> {
  return message.kind === 'ended'
}

function describe({ host, kill, faults, policy, reboot, turns, end }: EpisodePlan): string {
  const death = kill === undefined ? end : `kill ${JSON.stringify(kill)}`
  const weather = faults.map(({ from, calls, how }) => `${how} of calls ${from} to ${from + calls - 1}`)
  return [`host ${host}`, policy, `${turns} turns`, ...(reboot ? ['after a power loss'] : []), ...weather, death].join(
    ', ',
  )
}
