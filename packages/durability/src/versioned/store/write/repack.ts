import { generationIn } from '../containers.ts'
import type { PackEntry } from '../../format/pack-table-page.ts'

/** What a commit may move out of the objects that it lies in, in stored bytes. */
export const REPACK_BYTES: number = 16 * 1024 * 1024
/** Payload in commits further back than this is moved, so that they can be reclaimed. */
const MAX_AGE = 64
/** What is this far back goes along with what has to. */
const ALONG_AGE = 48
const OBJECT_BYTES = 16 * 1024 * 1024
const FREE_OBJECTS = 32

/**
 * The objects that the next commit moves its live payload out of, oldest first: those that keep old commits from being
 * reclaimed, and where the tree lies in too many objects or in objects that hold little else than waste, as many as it takes.
 *
 * @param packs of the tree, with live bytes
 * @param generation of the next commit
 * @returns numbers of objects
 */
export function chooseRepack(packs: Iterable<PackEntry>, generation: number): number[] {
  const used = [...packs].filter(({ live }) => live > 0).toSorted((a, b) => a.n - b.n)
  const ageOf = ({ name }: PackEntry): number => generation - (generationIn(name) ?? generation)
  const isOld = used.some((pack) => ageOf(pack) > MAX_AGE)
  const old = isOld ? used.filter((pack) => ageOf(pack) > ALONG_AGE) : []
  const live = sum(used, (pack) => pack.live)
  const held = sum(used, (pack) => pack.size)
  const most = FREE_OBJECTS + 2 * Math.ceil(live / OBJECT_BYTES)
  // One that is nearly full of live payload gains nothing by being moved.
  const wasteful = used.filter((pack) => pack.live < pack.size / 2 || pack.size < OBJECT_BYTES / 2)
  const chosen =
    used.length > most || live < held / 2 ? [...old, ...wasteful.filter((pack) => !old.includes(pack))] : old
  let bytes = 0
  return chosen.filter((pack) => (bytes += pack.live) <= REPACK_BYTES || pack === chosen[0]).map(({ n }) => n)
}

function sum<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((all, item) => all + of(item), 0)
}
