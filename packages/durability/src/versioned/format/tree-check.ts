import { DamagedObjectError, type ObjectRange, quote } from './bytes/damage.ts'
import type { TreeTotals } from './header.ts'
import { chunkCount, chunkLength, type FileEntry, type IndexEntry, keyOf } from './index-entry.ts'
import type { PageRef } from './inner-page.ts'
import { MAX_ENTRY_REFS } from './bytes/limits.ts'
import type { PackTable } from './pack-table.ts'

/**
 * Whether the entries of all pages are one tree, looked at page by page in their order and in memory that doesn't grow with
 * them: nothing is twice there, nothing lies below a file or a link, every file has all its chunks, every reference leads
 * to a place in an object of the commit, and it all adds up to the totals.
 */
export class TreeCheck {
  readonly #packs: PackTable
  readonly #found: TreeTotals = { files: 0, dirs: 0, links: 0, bytes: 0 }
  /** Files and links, of which each is the beginning of the path after it and of the last one. */
  #above: string[] = []
  #before: string | undefined
  /** A file, until all of its chunks were seen. */
  #open: { file: FileEntry; chunks: number } | undefined

  constructor(packs: PackTable) {
    this.#packs = packs
  }

  /**
   * @param nextFrom the separator of the next page, undefined for the last
   * @param range where the page lies
   * @throws DamagedObjectError
   */
  add(entries: readonly IndexEntry[], page: PageRef, nextFrom: string | undefined, range: ObjectRange): void {
    const fail = (why: string): never => {
      throw new DamagedObjectError(range, why)
    }
    if (entries.length !== page.entries) fail(`it has ${entries.length} entries in the place of ${page.entries}`)
    for (const entry of entries) {
      const key = keyOf(entry)
      const isPlace = key >= page.from && (nextFrom === undefined || key < nextFrom)
      if (!isPlace || (this.#before !== undefined && key <= this.#before)) fail(`${quote(key)} is on the wrong page`)
      this.#before = key
      if (entry.type === 'more') {
        const open = this.#open
        if (open?.file.path !== entry.path || open.chunks !== entry.first) {
          return fail(`${quote(entry.path)} goes on with its chunk ${entry.first}, which is not the next`)
        }
        const { size, chunkSize } = open.file
        const left = chunkCount(size, chunkSize) - entry.first
        if (entry.refs.length !== Math.min(left, MAX_ENTRY_REFS)) fail(`${quote(entry.path)} lacks chunks`)
        for (const [index, ref] of entry.refs.entries()) {
          const rawLength = chunkLength(size, chunkSize, entry.first + index)
          if (ref.codec === 'raw' ? ref.length !== rawLength : ref.length >= rawLength) {
            fail(`a chunk of ${quote(entry.path)} is stored in ${ref.length} bytes`)
          }
        }
        this.#took(open.file, open.chunks + entry.refs.length)
      } else {
        if (this.#open !== undefined) fail(`${quote(this.#open.file.path)} lacks chunks`)
        this.#place(entry, fail)
      }
      if (entry.type === 'file' || entry.type === 'more') for (const ref of entry.refs) this.#packs.locate(ref)
    }
  }

  /** After the last page. Throws {@link DamagedObjectError}. */
  end(totals: TreeTotals, range: ObjectRange): void {
    if (this.#open !== undefined) throw new DamagedObjectError(range, `${quote(this.#open.file.path)} lacks chunks`)
    for (const name of ['files', 'dirs', 'links', 'bytes'] as const) {
      if (this.#found[name] === totals[name]) continue
      throw new DamagedObjectError(range, `its tree has ${this.#found[name]} ${name}, and should have ${totals[name]}`)
    }
  }

  #place(entry: Exclude<IndexEntry, { type: 'more' }>, fail: (why: string) => never): void {
    const { type, path } = entry
    // What sorts between a path and those below it begins with it, too: whatever doesn't is out of the way for good.
    while (this.#above.length > 0 && !path.startsWith(this.#above.at(-1) as string)) this.#above.pop()
    for (const leaf of this.#above) {
      if (path[leaf.length] === '/') fail(`${quote(path)} lies below ${quote(leaf)}, which is no directory`)
    }
    if (type !== 'dir') this.#above.push(path)
    if (type === 'dir') this.#found.dirs++
    else if (type === 'link') this.#found.links++
    else {
      this.#found.files++
      this.#found.bytes += entry.size
      this.#took(entry, entry.refs.length)
    }
  }

  #took(file: FileEntry, chunks: number): void {
    this.#open = chunks < chunkCount(file.size, file.chunkSize) ? { file, chunks } : undefined
  }
}
