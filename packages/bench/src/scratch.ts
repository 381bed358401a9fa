import { mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const MEMORY_DISK = '/dev/shm'

/**
 * Fresh directories, on the disk of the temporary directory. They are removed together at the very end, since ext4
 * creates files many times slower for a while after many were deleted.
 */
export class Scratch {
  readonly #disk: string = mkdtempSync(join(tmpdir(), 'nexus-bench-'))
  #memory: string | undefined
  #count = 0

  /** A new, empty directory. */
  dir(name: string): string {
    return this.#fresh(this.#disk, name)
  }

  /** A new, empty directory in memory where the machine has `bytes` of such a disk free, else as {@link dir}. */
  memoryDir(name: string, bytes: number): string {
    if (!hasRoom(MEMORY_DISK, bytes)) return this.dir(name)
    this.#memory ??= mkdtempSync(join(MEMORY_DISK, 'nexus-bench-'))
    return this.#fresh(this.#memory, name)
  }

  /** Removes everything. */
  remove(): void {
    for (const root of [this.#disk, this.#memory]) {
      if (root !== undefined) rmSync(root, { recursive: true, force: true })
    }
  }

  #fresh(root: string, name: string): string {
    const path = join(root, `${++this.#count}-${name}`)
    mkdirSync(path)
    return path
  }
}

function hasRoom(path: string, bytes: number): boolean {
  try {
    const { bavail, bsize } = statfsSync(path)
    return bavail * bsize >= bytes
  } catch {
    return false
  }
}
