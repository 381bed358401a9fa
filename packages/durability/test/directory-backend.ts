import { randomBytes } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  unlinkSync,
} from 'node:fs'
import { join } from 'node:path'
import {
  hydrateObjects,
  ObjectNotFoundError,
  replaceFile,
  trimKeyPrefix,
  validateKey,
  validateKeyPrefix,
  type Backend,
  type ByteRange,
  type ObjectInfo,
  type OpOptions,
} from '@nexus/objectstore'

/**
 * A bucket that outlives the process, for tests that kill it: every object is one file in one flat directory, its key
 * encoded in the name. Each put is atomic; nothing is synced, since no test here loses power.
 */
export class DirectoryBackend implements Backend {
  readonly #dir: string

  constructor(dir: string) {
    this.#dir = dir
    mkdirSync(dir, { recursive: true })
  }

  async hydrate(keyPrefix: string, destDir: string, options: OpOptions = {}): Promise<void> {
    validateKeyPrefix(keyPrefix)
    await hydrateObjects(
      this.#all(),
      keyPrefix,
      destDir,
      ({ key }, temp) => copyFileSync(this.#path(key), temp),
      options,
    )
  }

  async put(key: string, localPath: string): Promise<void> {
    validateKey(key)
    const temp = this.#temp(localPath)
    renameSync(temp, this.#path(key))
  }

  async putIfAbsent(key: string, localPath: string): Promise<boolean> {
    validateKey(key)
    const temp = this.#temp(localPath)
    try {
      linkSync(temp, this.#path(key))
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
      throw error
    } finally {
      unlinkSync(temp)
    }
  }

  async get(key: string, localPath: string, options: OpOptions & ByteRange = {}): Promise<void> {
    validateKey(key)
    if (!existsSync(this.#path(key))) throw new ObjectNotFoundError(key)
    if (options.length !== undefined || options.offset !== undefined) throw new Error('no ranges here')
    await replaceFile(localPath, key, async (temp) => {
      copyFileSync(this.#path(key), temp)
      return undefined
    })
  }

  async delete(key: string): Promise<void> {
    validateKey(key)
    rmSync(this.#path(key), { force: true })
  }

  async list(keyPrefix: string): Promise<ObjectInfo[]> {
    validateKeyPrefix(keyPrefix)
    return this.#all().filter(({ key }) => trimKeyPrefix(key, keyPrefix) !== undefined)
  }

  async flush(): Promise<void> {}

  #all(): ObjectInfo[] {
    const names = readdirSync(this.#dir).filter((name) => !name.startsWith('.'))
    return names.map((name) => ({
      key: Buffer.from(name, 'base64url').toString(),
      size: lstatSync(join(this.#dir, name)).size,
    }))
  }

  #path(key: string): string {
    return join(this.#dir, Buffer.from(key).toString('base64url'))
  }

  #temp(localPath: string): string {
    const temp = join(this.#dir, `.${randomBytes(8).toString('hex')}`)
    copyFileSync(localPath, temp)
    return temp
  }
}
