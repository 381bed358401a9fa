import type { Containers } from '../core/commit-facts.ts'
import type { PackEntry } from '../format/pack-table-page.ts'

/** The objects that a commit takes something from, in the form in which reclaim asks for them. */
export function containersOf(packs: Iterable<PackEntry>, generation: number): Containers {
  const names = new Set<string>()
  let lowestCommit = generation
  for (const { name } of packs) {
    const commit = generationIn(name)
    if (commit === undefined) names.add(name.slice('packs/'.length))
    else lowestCommit = Math.min(lowestCommit, commit)
  }
  return { packs: names, lowestCommit }
}

/** The generation of a commit, by its name in a table of packs; undefined for a pack. */
export function generationIn(name: string): number | undefined {
  return name.startsWith('commits/') ? Number(name.slice('commits/'.length).replace('/', '')) : undefined
}
