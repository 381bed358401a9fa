/** The `object_store` block, as far as it says where the store is. */
export interface FightStore {
  backend: string
  bucket: string
  endpoint?: string
  credentials_file?: string
}

/** What a fighter is told when it starts, as JSON in its first argument. */
export interface FightOrder {
  fighter: number
  /** Distinguishes the processes that fight under one number, one after the other. */
  life: number
  sessionId: string
  dataRoot: string
  store: FightStore
  /** Of the calls to the store, the share that does its work and answers nothing. */
  lostAnswers: number
}

/** A turn that the engine acknowledged. */
export interface AcknowledgedTurn {
  turn: string
  fighter: number
  /** Of the commit that holds it. */
  generation: number
  /** Of the fighter's file in that turn. */
  sha256: string
}

export type FightMessage =
  | { kind: 'booted' }
  | ({ kind: 'acknowledged' } & AcknowledgedTurn)
  | { kind: 'lost' }
  | { kind: 'failed'; code: string; error: string }

export const CONVERSATION = 'context/conversation.jsonl'
export const DATABASE = 'fight'

/** The file that a fighter writes in each of its turns. */
export function fileOf(fighter: number): string {
  return `files/fighter-${fighter}.bin`
}
