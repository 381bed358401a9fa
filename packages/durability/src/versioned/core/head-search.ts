import { NexusError } from '@nexus/errors'
import type { CommitFacts, Found } from './commit-facts.ts'
import type { CommitStore } from './commit-store.ts'
import { FIRST_GENERATION, folderOf, lastOfFolder } from './versioned-keys.ts'

/** What a search found. `forgotten`: the store lacks a commit that it once acknowledged. */
export type Head = { is: 'commit'; commit: CommitFacts } | { is: 'none' } | { is: 'forgotten'; generation: number }

/**
 * Finds the newest commit.
 *
 * Numbers are created one after the other and never freed, so every number up to the head exists and none above it: from any
 * number that ever existed, the head is the one before the first that is missing. Listings only shorten the way.
 *
 * @param known a generation that the store acknowledged once; default: the hint, else the first
 * @throws `CORRUPT` when the head can't be understood or numbers are missing below it; the store's error
 */
export async function findHead(store: CommitStore, known?: number): Promise<Head> {
  const lower = known ?? (await store.hint()) ?? FIRST_GENERATION
  const head = await searchFrom(store, lower)
  if (head !== undefined) return { is: 'commit', commit: head }
  if (known !== undefined) return { is: 'forgotten', generation: known }
  // A hint outlives its commits where a prefix was emptied or a bucket restored.
  const first = lower === FIRST_GENERATION ? undefined : await searchFrom(store, FIRST_GENERATION)
  return first === undefined ? { is: 'none' } : { is: 'commit', commit: first }
}

async function searchFrom(store: CommitStore, lower: number): Promise<CommitFacts | undefined> {
  let generation = await highestListed(store, lower)
  let found = await store.read(generation)
  if (found.is === 'missing') {
    if (generation === lower) return undefined
    throw gone(generation, 'the listing shows it, and it is gone')
  }
  for (;;) {
    const next: Found = await store.read(generation + 1)
    if (next.is === 'missing') break
    found = next
    generation += 1
  }
  if (found.is === 'corrupt') throw found.error
  if (found.is === 'tombstone') throw gone(generation, 'it is a tombstone, and the commits that followed it are gone')
  return found.commit
}

async function highestListed(store: CommitStore, lower: number): Promise<number> {
  let highest = lower
  for (let folder = folderOf(lower); ; folder++) {
    for (const generation of await store.list(folder)) highest = Math.max(highest, generation)
    if (highest < lastOfFolder(folder)) return highest
  }
}

function gone(generation: number, what: string): NexusError {
  return new NexusError('CORRUPT', `commit ${generation}: ${what}. Something other than the engine deletes commits`, {
    op: 'durability.head',
    key: String(generation),
  })
}
