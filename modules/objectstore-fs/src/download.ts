import { dirname, join } from 'node:path'
import { engineTempName } from '@nexus/host'
import { hydrateObjects, NexusError, ObjectNotFoundError, quoteKey, type ByteRange } from '@nexus/objectstore'
import type { BucketContext } from './object/bucket-context.ts'
import type { Call } from './call.ts'
import { copyBytes, onLocal, reportingChunks } from './object/copy-file.ts'
import { CREATE_FLAGS } from './disk/file-system.ts'
import { listObjects } from './list.ts'
import { findPlace, openObject, type OpenObject } from './object/object-place.ts'

/** Permission bits of downloaded files, before the umask: sessions hold prompts and secrets. */
const LOCAL_MODE = 0o600

/** One object of the store by its key and by its names on disk. */
export interface ObjectName {
  key: string
  segments: readonly string[]
}

/** Writes an object, or a range of it, to a local file through a temporary one beside it. Gives the bytes written. */
export async function getObject(
  context: BucketContext,
  name: ObjectName,
  localPath: string,
  range: ByteRange,
  call: Call,
): Promise<number> {
  const { fs } = context
  context.identity.check()
  call.signal.throwIfAborted()
  const object = openOrMiss(context, name)
  try {
    const offset = Math.min(range.offset ?? 0, object.sizeBytes)
    const length = Math.min(range.length ?? Number.MAX_SAFE_INTEGER, object.sizeBytes - offset)
    const tempPath = join(dirname(localPath), engineTempName())
    const onChunk = reportingChunks(call)
    try {
      await copyOut(context, object, { offset, length }, name.key, tempPath, onChunk)
      call.signal.throwIfAborted()
      onLocal(localPath, () => fs.renameSync(tempPath, localPath))
    } catch (error) {
      try {
        fs.unlinkSync(tempPath)
      } catch {
        // It was never made, or the disk fails: the first error is the one to report.
      }
      throw error
    }
    return length
  } finally {
    fs.closeSync(object.fd)
  }
}

/** Writes every object below a prefix into a directory. */
export async function hydratePrefix(
  context: BucketContext,
  prefix: ObjectName,
  toSegments: (key: string) => readonly string[],
  destination: string,
  call: Call,
): Promise<{ objects: number; bytes: number }> {
  const { fs } = context
  const silence = (): Promise<void> => call.progress({ objects: 0, bytes: 0 })
  const silent: Call = { signal: call.signal, turnIsOver: false, progress: silence }
  const { objects, unreadable } = await listObjects(context, prefix.segments, prefix.key, silent)
  const [bad] = unreadable
  if (bad !== undefined) {
    const message = `the bucket holds ${quoteKey(bad)}, whose name is not UTF-8 and can't become a file; remove or rename it`
    throw new NexusError('CORRUPT', message, { op: 'objectstore.hydrate', key: bad })
  }
  const totals = { objects: 0, bytes: 0 }
  await hydrateObjects(
    objects.map(({ key, sizeBytes }) => ({ key, size: sizeBytes })),
    prefix.key,
    destination,
    async ({ key }, tempPath, { signal, onBytes }) => {
      // Also where other calls get their turn and an abort is heard.
      await call.progress(totals)
      signal.throwIfAborted()
      const object = openOrMiss(context, { key, segments: toSegments(key) })
      try {
        await copyOut(context, object, { offset: 0, length: object.sizeBytes }, key, tempPath, (bytes) => {
          onBytes(bytes)
          return call.progress(totals)
        })
      } finally {
        fs.closeSync(object.fd)
      }
      return object.sizeBytes
    },
    {
      // Every step is synchronous, so more at once would not be faster.
      concurrency: 1,
      signal: call.signal,
      onProgress: (progress) => Object.assign(totals, progress),
    },
  )
  return totals
}

function openOrMiss(context: BucketContext, { key, segments }: ObjectName): OpenObject {
  const place = findPlace(context, segments)
  const object = place === undefined ? undefined : openObject(context, place)
  if (object !== undefined) return object
  // A bucket that has gone away meanwhile would look the same, and an outage is never a miss.
  context.identity.check()
  throw new ObjectNotFoundError(key)
}

async function copyOut(
  context: BucketContext,
  object: OpenObject,
  range: { offset: number; length: number },
  key: string,
  tempPath: string,
  onChunk: (bytes: number, last: boolean) => Promise<void> | undefined,
): Promise<void> {
  const { fs } = context
  const toFd = onLocal(tempPath, () => fs.openSync(tempPath, CREATE_FLAGS, LOCAL_MODE))
  try {
    const plan = { fromFd: object.fd, toFd, ...range, fromPath: key, local: 'to', localPath: tempPath } as const
    await copyBytes(context, plan, onChunk, false)
  } finally {
    onLocal(tempPath, () => fs.closeSync(toFd))
  }
}
