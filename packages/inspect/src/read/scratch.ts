import { mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fromSystemError } from '@nexus/errors'
import { removeStagingDir } from '@nexus/durability/tools'

/** A directory for what is copied or downloaded to be read; made when it is first asked for. */
export class Scratch {
  readonly #parent: string
  #dir: string | undefined
  #names = 0

  /** @param parent default: the system's directory for temporary files */
  constructor(parent: string = tmpdir()) {
    this.#parent = parent
  }

  get dir(): string {
    this.#dir ??= this.#make()
    return this.#dir
  }

  /** A fresh directory. */
  newDir(): string {
    const dir = join(this.dir, String(this.#names++))
    mkdirSync(dir, { mode: 0o700 })
    return dir
  }

  #make(): string {
    try {
      mkdirSync(this.#parent, { recursive: true, mode: 0o700 })
      return mkdtempSync(join(this.#parent, 'nexus-inspect-'))
    } catch (error) {
      throw fromSystemError(error, 'inspect.scratch', this.#parent)
    }
  }

  /** Removes it with all that is in it. */
  async remove(): Promise<void> {
    const dir = this.#dir
    this.#dir = undefined
    if (dir !== undefined) await removeStagingDir(dir)
  }
}
