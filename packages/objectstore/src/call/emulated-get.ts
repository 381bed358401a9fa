import { createWriteStream, mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { systemCode } from '@nexus/errors'
import { engineTempName } from '@nexus/host'
import type { Backend, ByteRange, OpOptions } from '../driver.ts'
import { ObjectNotFoundError } from '../errors.ts'
import { replaceFile } from '../hydrate/replace-file.ts'
import { openSnapshot } from '../transfer/open-snapshot.ts'
import { resolveRange } from '../transfer/range.ts'

/**
 * What `get` is for a backend without it: the object's directory is hydrated beside the file, and the object taken out of
 * that. It costs what the directory holds, so what is read often lives in a directory of its own.
 *
 * @throws ObjectNotFoundError when the listing does not have the object
 */
export async function getByHydrating(
  backend: Backend,
  key: string,
  localPath: string,
  { offset, length, ...options }: OpOptions & ByteRange,
): Promise<void> {
  const end = key.lastIndexOf('/')
  const prefix = key.slice(0, Math.max(end, 0))
  const { onProgress: _, ...quiet } = options
  const objects = await backend.list(prefix, quiet)
  if (!objects.some((object) => object.key === key)) throw new ObjectNotFoundError(key)
  const scratch = join(dirname(localPath), engineTempName())
  mkdirSync(scratch, { mode: 0o700 })
  try {
    await backend.hydrate(prefix, scratch, options)
    const from = join(scratch, key.slice(end + 1))
    await replaceFile(localPath, key, (tempPath) => copyRange(from, tempPath, { offset, length }, key, options.signal))
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

async function copyRange(
  from: string,
  to: string,
  range: { offset: number | undefined; length: number | undefined },
  key: string,
  signal: AbortSignal | undefined,
): Promise<number> {
  const snapshot = await openSnapshot(from).catch((error: unknown) => {
    // Deleted between the listing and the hydration.
    throw systemCode(error) === 'ENOENT' ? new ObjectNotFoundError(key, { cause: error }) : error
  })
  try {
    const { offset, length } = resolveRange(range, snapshot.size)
    const target = createWriteStream(to, { flags: 'wx', mode: 0o600 })
    await pipeline(snapshot.stream(offset, length), target, signal === undefined ? {} : { signal })
    return length
  } finally {
    await snapshot.close()
  }
}
