/** Names one commit for certain: the digest is that of its header, which holds the digest of its parent. */
export interface CommitId {
  generation: number
  /** 64 lowercase hex digits: sha256 of the header as it is stored. */
  digest: string
}

/** Why a commit was made. */
export type CommitKind = 'turn' | 'request' | 'shutdown' | 'retry' | 'claim' | 'repack' | 'fork' | 'migrate' | 'removed'

/** What the decisions go by: of a commit, no more than this. */
export interface CommitFacts extends CommitId {
  kind: CommitKind
  /** Undefined for the first commit of a session or a fork. */
  parent?: CommitId | undefined
  /** For messages, as the nonce: they decide nothing. */
  instanceId: string
  host?: string | undefined
  pid?: number | undefined
  nonce: string
  completedAtMs: number
}

/** What a number of a session holds. A damaged commit is a fact too: it can't be answered by asking again. */
export type Found =
  | { is: 'commit'; commit: CommitFacts }
  | { is: 'tombstone' }
  | { is: 'missing' }
  | { is: 'corrupt'; error: Error }

/** The objects that hold the payload of one commit. */
export interface Containers {
  /** Packs, by the last segment of their keys. */
  packs: ReadonlySet<string>
  /** The lowest commit among them, itself counted. */
  lowestCommit: number
}

export function isSame(a: CommitId | undefined, b: CommitId | undefined): boolean {
  return a !== undefined && b !== undefined && a.generation === b.generation && a.digest === b.digest
}

/** The commit that a number holds; undefined where it holds none. */
export function commitIn(found: Found): CommitFacts | undefined {
  return found.is === 'commit' ? found.commit : undefined
}
