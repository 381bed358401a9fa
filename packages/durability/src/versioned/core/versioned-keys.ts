import { NexusError } from '@nexus/errors'
import { sessionKeys } from '../../tree/keys.ts'

// Every key of the versioned layout is spelled here, and taken apart here.

/** The first commit of a session. */
export const FIRST_GENERATION = 1
/** Commits in one folder. The first has one less, for there is no generation 0. */
export const FOLDER_SIZE = 1000

/** What a key below the prefix of a versioned session names. */
export type VersionedName = { is: 'commit'; generation: number } | { is: 'pack'; pack: PackName } | { is: 'hint' }

/** The parts of a pack's name. */
export interface PackName {
  /** The head that its uploader knew, plus one. */
  number: number
  /** 16 lowercase hex digits, random per attempt. */
  attempt: string
  /** Counts the packs of an attempt from 0. */
  n: number
}

const COMMIT = /^commits\/(\d{17})\/(\d{3})$/
const PACK = /^packs\/(\d{20})-([0-9a-f]{16})-(0|[1-9]\d{0,8})$/

/** Everything of a versioned session lies below it; the whole prefix is the engine's. No `/` at its end. */
export function sessionRoot(sessionId: string): string {
  return `${sessionKeys(sessionId).tree}.v`
}

/** The folder that a generation lies in, counted from 0. */
export function folderOf(generation: number): number {
  return Math.floor(generation / FOLDER_SIZE)
}

/** The highest generation of a folder: while it is missing, there is no next folder. */
export function lastOfFolder(folder: number): number {
  return Math.min(folder * FOLDER_SIZE + FOLDER_SIZE - 1, Number.MAX_SAFE_INTEGER)
}

/**
 * @param root as {@link sessionRoot} gives it, or that of a shared root
 * @throws `INVALID_ARGUMENT` for a generation that can't be one
 */
export function commitKey(root: string, generation: number): string {
  const digits = digitsOf(generation)
  return `${root}/commits/${digits.slice(0, -3)}/${digits.slice(-3)}`
}

/** Prefix of one folder of commits. */
export function folderKey(root: string, folder: number): string {
  return `${root}/commits/${String(folder).padStart(17, '0')}`
}

/** Prefix of all packs. */
export function packsKey(root: string): string {
  return `${root}/packs`
}

export function packKey(root: string, pack: PackName): string {
  return `${packsKey(root)}/${packFile(pack)}`
}

/** The last segment of a pack's key: how commits name it. */
export function packFile({ number, attempt, n }: PackName): string {
  return `${digitsOf(number)}-${attempt}-${n}`
}

/** The parts of a pack's last segment; undefined where it isn't one. */
export function parsePackFile(file: string): PackName | undefined {
  const name = parseName(`packs/${file}`)
  return name?.is === 'pack' ? name.pack : undefined
}

/** Holds a generation that exists. */
export function hintKey(root: string): string {
  return `${root}/hint`
}

/** What a key below a root names, given without the root; undefined for what the engine never wrote. */
export function parseName(name: string): VersionedName | undefined {
  if (name === 'hint') return { is: 'hint' }
  const [, folder, last] = COMMIT.exec(name) ?? []
  if (folder !== undefined && last !== undefined) {
    const generation = parseDigits(folder + last)
    return generation === undefined ? undefined : { is: 'commit', generation }
  }
  const [, digits, attempt, n] = PACK.exec(name) ?? []
  const number = digits === undefined ? undefined : parseDigits(digits)
  if (number === undefined || attempt === undefined) return undefined
  return { is: 'pack', pack: { number, attempt, n: Number(n) } }
}

function parseDigits(digits: string): number | undefined {
  const number = Number(digits)
  return Number.isSafeInteger(number) && number >= FIRST_GENERATION ? number : undefined
}

function digitsOf(generation: number): string {
  if (Number.isSafeInteger(generation) && generation >= FIRST_GENERATION) return String(generation).padStart(20, '0')
  throw new NexusError('INVALID_ARGUMENT', `${generation} is no generation: they go from 1 to 2^53-1`, {
    op: 'durability.versioned',
  })
}
