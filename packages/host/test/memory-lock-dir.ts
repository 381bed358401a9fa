import { constants } from 'node:fs'
import { basename } from 'node:path'
import type { LockFs } from '../src/lock/lock-record.ts'

interface Inode {
  number: number
  content: string
  links: number
}

/** One directory in memory with the semantics that locking builds on, calling back before every operation. */
export class MemoryLockDir {
  readonly #names = new Map<string, Inode>()
  readonly #open = new Map<number, Inode>()
  #next = 100
  #onRename: (() => void) | undefined

  names(): string[] {
    return [...this.#names.keys()]
  }

  read(name: string): string | undefined {
    return this.#names.get(name)?.content
  }

  write(name: string, content: string): void {
    this.#names.set(name, { number: this.#next++, content, links: 1 })
  }

  remove(name: string): void {
    this.#names.delete(name)
  }

  /** Takes over what another directory holds. */
  adopt(other: MemoryLockDir): void {
    for (const name of other.names()) this.write(name, other.read(name) ?? '')
  }

  /** Calls back before each rename. */
  onRename(callback: () => void): void {
    this.#onRename = callback
  }

  /** The directory as one process sees it. */
  as(step: () => void): LockFs {
    const find = (path: string): Inode => {
      const inode = this.#names.get(basename(path))
      if (inode === undefined) throw systemError('ENOENT', path)
      return inode
    }
    const fs = {
      openSync: (path: string, flags: number): number => {
        step()
        const fd = this.#next++
        if ((flags & constants.O_CREAT) === 0) this.#open.set(fd, find(path))
        else if (this.#names.has(basename(path))) throw systemError('EEXIST', path)
        else {
          const inode = { number: this.#next++, content: '', links: 1 }
          this.#names.set(basename(path), inode)
          this.#open.set(fd, inode)
        }
        return fd
      },
      closeSync: (fd: number): void => void this.#open.delete(fd),
      fstatSync: (fd: number): object => stats(this.#open.get(fd) as Inode),
      lstatSync: (path: string): object => stats(find(path)),
      readSync: (fd: number, bytes: Buffer): number => {
        step()
        return bytes.write((this.#open.get(fd) as Inode).content)
      },
      writeSync: (fd: number, content: string): void => {
        step()
        const inode = this.#open.get(fd) as Inode
        inode.content = content
      },
      linkSync: (from: string, to: string): void => {
        step()
        const inode = find(from)
        if (this.#names.has(basename(to))) throw systemError('EEXIST', to)
        this.#names.set(basename(to), inode)
      },
      renameSync: (from: string, to: string): void => {
        this.#onRename?.()
        step()
        this.#names.set(basename(to), find(from))
        this.#names.delete(basename(from))
      },
      unlinkSync: (path: string): void => {
        step()
        find(path)
        this.#names.delete(basename(path))
      },
      readdirSync: (): string[] => {
        step()
        return this.names()
      },
    }
    return fs as unknown as LockFs
  }
}

function stats(inode: Inode): object {
  const size = BigInt(inode.content.length)
  return { dev: 1n, ino: BigInt(inode.number), size, mtimeMs: 0n, mtimeNs: 0n, isFile: () => true }
}

function systemError(code: string, path: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: ${path}`), { code })
}
