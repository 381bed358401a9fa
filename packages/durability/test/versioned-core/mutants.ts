import type { Mutation } from './programs.ts'

/** A protocol that is wrong in one way, and the world that shows it. */
export interface Mutant {
  scenario: string
  faults: number
  turns?: number
  mutation: Mutation
}

/** Each was a tempting simplification. */
export const MUTANTS: Readonly<Record<string, Mutant>> = {
  'reclaim deletes commits instead of leaving tombstones': {
    scenario: 'a writer whose number is reclaimed before it asks again',
    faults: 1,
    mutation: { deletesCommits: true },
  },
  'reclaim takes commits that the lowest kept one names': {
    scenario: 'two reclaimers, one of them late',
    faults: 0,
    mutation: { containers: (containers, kept) => ({ ...containers, lowestCommit: kept }) },
  },
  'reclaim takes packs that may yet be named': {
    scenario: 'packs that are named late',
    faults: 0,
    mutation: { packOffset: 2 },
  },
  'a commit takes payload from any commit that has it': {
    scenario: 'two reclaimers, one of them late',
    faults: 0,
    mutation: { dedupesBeyondParent: true },
  },
  'an unresolved attempt is sent again with new bytes': {
    scenario: 'two hosts take a session from each other',
    faults: 1,
    turns: 2,
    mutation: {
      retriesWithNewBytes: true,
      onTaken: (found, attempt) =>
        found.is === 'commit' && found.commit.nonce === attempt.nonce
          ? { is: 'commit', commit: { ...found.commit, digest: attempt.digest } }
          : found,
    },
  },
  'a tombstone at the number of an attempt counts as its success': {
    scenario: 'a writer whose number is reclaimed before it asks again',
    faults: 1,
    mutation: {
      onTaken: (found, { generation, digest, kind, parent }) =>
        found.is === 'tombstone'
          ? { is: 'commit', commit: { generation, digest, kind, parent, instanceId: '', nonce: '', completedAtMs: 0 } }
          : found,
    },
  },
  'a commit is ours by its nonce': {
    scenario: 'a machine is cloned',
    faults: 0,
    turns: 2,
    mutation: {
      onTaken: (found, attempt) =>
        found.is === 'commit' && found.commit.nonce === attempt.nonce
          ? { is: 'commit', commit: { ...found.commit, digest: attempt.digest } }
          : found,
    },
  },
  'the record lies beside the tree': {
    scenario: 'a disk is rolled back',
    faults: 0,
    turns: 2,
    mutation: { recordBesideTree: true },
  },
  'a warm tree is kept across a removal': {
    scenario: 'a session is removed under its writer, and created again',
    faults: 0,
    mutation: {
      onJudged: (found) =>
        found.is === 'commit' && found.commit.kind === 'removed'
          ? { is: 'commit', commit: { ...found.commit, kind: 'claim' } }
          : found,
    },
  },
  'a tree is not judged after a boot with the store down': {
    scenario: 'a host that boots while the store is down',
    faults: 0,
    mutation: { skipsLateJudgement: true },
  },
  'a reader goes by whether its commit is still there': {
    scenario: 'a reader that a reclaimer overtakes',
    faults: 0,
    mutation: { rereadsItsCommit: true },
  },
  'a shared root is claimed over a newer head': {
    scenario: 'two hosts share one root',
    faults: 0,
    mutation: { claimsSharedOverNewer: true },
  },
  'packs of earlier attempts are used after another host has claimed': {
    scenario: 'packs that another host claims over',
    faults: 0,
    mutation: { keepsPacksUnderClaims: true },
  },
  'packs are named however old they are': {
    scenario: 'packs that are named late',
    faults: 0,
    turns: 4,
    mutation: { namesOldPacks: true },
  },
}
