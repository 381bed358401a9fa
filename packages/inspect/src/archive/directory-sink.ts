import { chmodSync, mkdirSync, symlinkSync, utimesSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { syncDirectory } from '@nexus/host'
import type { ArchiveItem } from './archive-format.ts'
import type { ArchiveSink, ItemAttributes } from './archive-sink.ts'

const OWNER_ONLY = 0o700

/** Writes an archive as a directory of the same content. */
export class DirectorySink implements ArchiveSink {
  readonly #dir: string
  readonly #made = new Set<string>()
  /** Set last, from the bottom up: they may forbid to put anything more into them. */
  readonly #modes: (readonly [path: string, mode: number])[] = []

  constructor(dir: string) {
    this.#dir = dir
    this.#make(dir)
  }

  async add(item: ArchiveItem, { mode, mtimeNs }: ItemAttributes, content?: AsyncIterable<Uint8Array>): Promise<void> {
    const path = join(this.#dir, item.name)
    if (item.kind === 'directory') {
      this.#make(path)
      this.#modes.push([path, mode])
      return
    }
    this.#make(dirname(path))
    if (item.kind === 'link') return symlinkSync(item.target, path)
    const file = await open(path, 'wx', 0o600)
    try {
      if (content !== undefined) for await (const chunk of content) await file.writeFile(chunk)
      await file.datasync()
    } finally {
      await file.close()
    }
    // Half a microsecond more keeps the rounding of Node from cutting one off; only a Date can be before 1970.
    const time = mtimeNs < 0n ? new Date(Number(mtimeNs / 1_000_000n)) : (Number(mtimeNs / 1000n) + 0.5) / 1e6
    utimesSync(path, time, time)
    chmodSync(path, mode)
  }

  async finish(): Promise<void> {
    for (const dir of this.#made) await syncDirectory(dir)
    for (const [path, mode] of this.#modes.toReversed()) chmodSync(path, mode)
  }

  async destroy(): Promise<void> {
    // Every file is closed already.
  }

  #make(dir: string): void {
    if (this.#made.has(dir)) return
    mkdirSync(dir, { recursive: true, mode: OWNER_ONLY })
    this.#made.add(dir)
  }
}
