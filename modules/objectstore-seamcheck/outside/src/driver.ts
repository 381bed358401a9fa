import { createWriteStream, type Stats } from 'node:fs'
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import {
  configError,
  counting,
  hydrateObjects,
  isFolderPlaceholder,
  joinKey,
  monotonicProgress,
  openSnapshot,
  parseOptions,
  replaceFile,
  systemCode,
  trimKeyPrefix,
  validateKey,
  validateKeyPrefix,
  type Backend,
  type ObjectInfo,
  type ObjectStoreConfig,
  type OpOptions,
} from '@nexus/objectstore'

const SUFFIX = '.object'

/** A key as a path of hex digits: no key can escape, and a file and a directory never meet under one name. */
function pathOf(key: string): string {
  const hex = Buffer.from(key).toString('hex')
  return `${(hex.match(/.{1,200}/g) ?? []).join('/')}${SUFFIX}`
}

function keyOf(path: string): string {
  return Buffer.from(path.slice(0, -SUFFIX.length).replaceAll('/', ''), 'hex').toString()
}

/** Undefined for a file that was deleted since the directory was read: the object it held is gone, the listing goes on. */
async function statIfThere(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Copies the file's first bytes, as many as it has when it is opened: it may grow meanwhile. */
async function copySnapshot(from: string, to: string, { signal, onProgress }: OpOptions): Promise<number> {
  const snapshot = await openSnapshot(from)
  const progress = monotonicProgress(onProgress)
  try {
    await pipeline(snapshot.stream(), counting(progress), createWriteStream(to), signal === undefined ? {} : { signal })
    return snapshot.size
  } finally {
    await snapshot.close()
  }
}

/** A driver as a stranger would write it: a directory of hex names, one file per object. */
export async function openHexBackend({ bucket, prefix, options: given }: ObjectStoreConfig): Promise<Backend> {
  // It has none, and says so of any that is configured.
  parseOptions('hex', given, {})
  const isDirectory = (await stat(bucket).catch(() => undefined))?.isDirectory() === true
  if (!isDirectory) throw configError('bucket', `${JSON.stringify(bucket)} is not a directory`)
  const fileOf = (key: string): string => join(bucket, pathOf(joinKey(prefix, key)))

  async function list(keyPrefix: string, { signal }: OpOptions = {}): Promise<ObjectInfo[]> {
    validateKeyPrefix(keyPrefix)
    signal?.throwIfAborted()
    const objects: ObjectInfo[] = []
    for (const path of await readdir(bucket, { recursive: true })) {
      signal?.throwIfAborted()
      if (!path.endsWith(SUFFIX)) continue
      const key = trimKeyPrefix(keyOf(path), prefix)
      if (key === undefined || trimKeyPrefix(key, keyPrefix) === undefined) continue
      const found = await statIfThere(join(bucket, path))
      if (found === undefined || isFolderPlaceholder(key, found.size)) continue
      objects.push({ key, size: found.size, modTime: found.mtime })
    }
    return objects
  }

  return {
    list,
    async hydrate(keyPrefix, destDir, options = {}) {
      await hydrateObjects(
        await list(keyPrefix, options),
        keyPrefix,
        destDir,
        // Answers with the size that it found: the object may have been replaced since the listing.
        ({ key }, tempPath, { signal }) => copySnapshot(fileOf(key), tempPath, { signal }),
        options,
      )
    },
    async put(key, localPath, options = {}) {
      validateKey(key)
      options.signal?.throwIfAborted()
      // A bucket that is gone must fail, not be made again beneath its mount point.
      await stat(bucket)
      await mkdir(dirname(fileOf(key)), { recursive: true })
      const bytes = await replaceFile(fileOf(key), key, (tempPath) => copySnapshot(localPath, tempPath, options))
      options.onProgress?.({ objects: 1, bytes })
    },
    async delete(key, { signal } = {}) {
      validateKey(key)
      signal?.throwIfAborted()
      await rm(fileOf(key), { force: true })
    },
    async flush({ signal } = {}) {
      signal?.throwIfAborted()
    },
    classify(error) {
      return systemCode(error) === 'EACCES' ? 'permission' : undefined
    },
  }
}
