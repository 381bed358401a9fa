import { createReadStream, fstatSync, readlinkSync } from 'node:fs'
import { resolve } from 'node:path'
import { systemCode } from '@nexus/errors'
import { TreeCursor } from '@nexus/host'
import { refused, type ArchiveItem } from './archive-format.ts'
import type { ArchiveSource } from './archive-source.ts'

/** Reads an archive from a directory, such as one that an archive was unpacked into. Follows no link. */
export class DirectorySource implements ArchiveSource {
  readonly #cursor: TreeCursor

  constructor(dir: string) {
    this.#cursor = new TreeCursor(resolve(dir))
  }

  async take({ name, kind, sizeBytes, target }: ArchiveItem): Promise<AsyncIterable<Uint8Array> | undefined> {
    if (kind === 'file') {
      const { fd, size } = this.#open(name)
      if (size === sizeBytes) return createReadStream('', { fd, start: 0 }) as AsyncIterable<Uint8Array>
      createReadStream('', { fd }).destroy()
      throw refused(`${name} has ${size} bytes in it, and must have ${sizeBytes}`)
    }
    const stats = this.#looking(name, () => this.#cursor.lstat(name))
    const isRight = kind === 'directory' ? stats?.isDirectory() : stats?.isSymbolicLink()
    if (isRight !== true) throw refused(`${name} must be a ${kind} in it`)
    if (kind === 'link' && this.#looking(name, () => readlinkSync(this.#cursor.place(name))) !== target) {
      throw refused(`the link ${name} leads elsewhere in it`)
    }
    return undefined
  }

  async takeText(name: string, mostBytes: number): Promise<Buffer> {
    const { fd, size } = this.#open(name)
    const pieces: Buffer[] = []
    for await (const piece of createReadStream('', { fd, start: 0 })) {
      if (size > mostBytes) throw refused(`${name} has ${size} bytes, and may have ${mostBytes}`)
      pieces.push(piece as Buffer)
    }
    return Buffer.concat(pieces)
  }

  /** What lies beside is left where it is. */
  expect(): void {}

  async finish(): Promise<void> {}

  async close(): Promise<void> {
    this.#cursor.close()
  }

  #open(name: string): { fd: number; size: number } {
    return this.#looking(name, () => {
      const fd = this.#cursor.openFile(name)
      return { fd, size: fstatSync(fd).size }
    })
  }

  #looking<T>(name: string, look: () => T): T {
    try {
      this.#cursor.reset()
      return look()
    } catch (error) {
      throw systemCode(error) === undefined ? error : refused(`${name} can't be read from it`, error)
    }
  }
}
