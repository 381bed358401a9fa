import type { Turn } from './deed.ts'
import { after, EMPTY_STATE, ended, type SessionState } from './session-state.ts'

/** A generation that the store may hold. */
export interface Commit {
  /** In the order of their beginning, from 1. */
  number: number
  host: string
  state: SessionState
  /** The host was told that it is stored; else the answer may have been lost. */
  certain: boolean
}

/** What lies on one host's disk. */
export interface LocalTree {
  /** What it may hold: several, where a kill fell between deeds. */
  states: SessionState[]
  /** The number of the newest commit that it derives from, or that was disproved for it. */
  knows: number
  /** Its last run ended with a stop. */
  clean: boolean
  /** The machine went down since. */
  rebooted: boolean
  /** The last process died while it was booting, so what lies there may be the old tree or a restored one. */
  murky: boolean
}

/** What a session must hold, by what its hosts have said so far. */
export class SessionModel {
  /** Oldest first. Those before the last certain one can't be what the store holds. */
  readonly commits: Commit[] = []
  readonly trees: Map<string, LocalTree> = new Map()
  /** Every state since the last certain commit whose objects a snapshot may have uploaded: what a mixture can hold. */
  attempts: SessionState[] = []
  /** The state of the running host. */
  current: SessionState = EMPTY_STATE
  /** The number of the newest commit, whatever became of it. */
  newest = 0

  /** What the store may hold now, oldest first. */
  get candidates(): Commit[] {
    const from = this.commits.findLastIndex(({ certain }) => certain)
    return this.commits.slice(Math.max(0, from))
  }

  get hasCertain(): boolean {
    return this.commits.some(({ certain }) => certain)
  }

  /** Whether another host has, or may have, committed since this tree was last up to date. */
  overtaken(host: string, { knows }: LocalTree): 'no' | 'maybe' | 'certainly' {
    const foreign = this.commits.filter((commit) => commit.number > knows && commit.host !== host)
    if (foreign.length === 0) return 'no'
    return foreign.some(({ certain }) => certain) ? 'certainly' : 'maybe'
  }

  /** A host is up, on this state, which derives from the commits up to this number. */
  booted(host: string, state: SessionState, knows: number): void {
    this.current = state
    this.trees.set(host, { states: [state], knows, clean: false, rebooted: false, murky: false })
  }

  /** A turn has ended; its snapshot follows. */
  turnEnded(turn: Turn): void {
    // A retry that a beginning turn calls off may just be uploading what that turn writes.
    for (const deed of turn.deeds) {
      this.current = after(this.current, deed)
      this.attempts.push(this.current)
    }
    this.current = ended(this.current, turn.id)
    this.attempts.push(this.current)
  }

  /** The host is about to put a manifest of its current state. */
  committing(host: string): void {
    this.newest += 1
    this.commits.push({ number: this.newest, host, state: this.current, certain: false })
  }

  /** It was told that the last one is stored. */
  committed(host: string): void {
    const last = this.commits.at(-1)
    if (last === undefined) return
    last.certain = true
    this.attempts = []
    this.#knowsAll(host)
  }

  /** What the store holds was seen: it can only be one of these commits. */
  settle(fitting: readonly Commit[]): void {
    const [first, ...others] = fitting
    const past = this.commits.indexOf(this.candidates[0] as Commit)
    this.commits.splice(Math.max(0, past), this.commits.length, ...fitting)
    // Several that look the same can't be told apart.
    if (first !== undefined && others.length === 0) first.certain = true
  }

  /** The host ended as it was told to. */
  stopped(host: string, { clean }: { clean: boolean }): void {
    this.trees.set(host, { ...this.#tree(host), states: [this.current], clean })
  }

  /** A host was right to go on with its own tree: whatever others may have committed since never got to the store. */
  disproveOthers(host: string): void {
    const from = this.commits.findLastIndex(({ certain }) => certain) + 1
    const own = this.commits.slice(from).filter((commit) => commit.host === host)
    this.commits.splice(from, this.commits.length, ...own)
  }

  /** The host died with these turns still to do: its tree may hold any part of them. */
  died(host: string, ahead: readonly Turn[]): void {
    const states = [this.current]
    for (const turn of ahead) {
      let state = states.at(-1) ?? EMPTY_STATE
      for (const deed of turn.deeds) {
        state = after(state, deed)
        states.push(state)
        this.attempts.push(state)
      }
      state = ended(state, turn.id)
      states.push(state)
      this.attempts.push(state)
    }
    this.trees.set(host, { ...this.#tree(host), states, clean: false })
  }

  /** The process died while it was booting. */
  diedBooting(host: string, hasTree: boolean): void {
    if (!hasTree) {
      this.trees.delete(host)
      return
    }
    const tree = this.#tree(host)
    const states = [...tree.states, ...this.candidates.map((commit) => commit.state), EMPTY_STATE]
    this.trees.set(host, { ...tree, states, clean: false, murky: true })
  }

  /** The machine lost power; nothing was running. */
  rebooted(host: string): void {
    const tree = this.trees.get(host)
    if (tree !== undefined) tree.rebooted = true
  }

  #knowsAll(host: string): void {
    this.trees.set(host, { ...this.#tree(host), knows: this.newest })
  }

  #tree(host: string): LocalTree {
    return this.trees.get(host) ?? { states: [], knows: 0, clean: false, rebooted: false, murky: false }
  }
}
