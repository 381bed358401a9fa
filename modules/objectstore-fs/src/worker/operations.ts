import type { Progress } from '@nexus/objectstore'
import type { BucketContext } from '../object/bucket-context.ts'
import type { Call } from '../call.ts'
import { getObject, hydratePrefix } from '../download.ts'
import { keySegments } from '../keys.ts'
import { listNames, listObjects } from '../list.ts'
import type { Answers, Operation } from './protocol.ts'
import { deleteObject } from '../remove.ts'
import { createObject, putObject } from '../upload.ts'

/** What a call gives back, and what it moved when that is worth a last report. */
export interface Outcome<T> {
  value: T
  progress?: Progress
}

type Handler<Op extends Operation['op']> = (
  context: BucketContext,
  operation: Extract<Operation, { op: Op }>,
  call: Call,
) => Promise<Outcome<Answers[Op]>>

const handlers: { [Op in Operation['op']]: Handler<Op> } = {
  open: async ({ identity }, { requireMount }) => {
    identity.open(requireMount)
    return { value: undefined }
  },
  put: async (context, { segments, localPath }, call) => {
    const bytes = await putObject(context, segments, localPath, call)
    return { value: undefined, progress: { objects: 1, bytes } }
  },
  putIfAbsent: async (context, { segments, localPath }, call) => {
    const bytes = await createObject(context, segments, localPath, call)
    return bytes === undefined ? { value: false } : { value: true, progress: { objects: 1, bytes } }
  },
  get: async (context, operation, call) => {
    const bytes = await getObject(context, operation, operation.localPath, operation.range, call)
    return { value: undefined, progress: { objects: 1, bytes } }
  },
  delete: async (context, { segments }) => {
    await deleteObject(context, segments)
    return { value: undefined }
  },
  list: async (context, { segments, key }, call) => {
    const { objects } = await listObjects(context, segments, key, call)
    return { value: objects }
  },
  listNames: async (context, { segments }, call) => ({ value: await listNames(context, segments, call) }),
  hydrate: async (context, operation, call) => {
    const toSegments = (key: string): string[] => keySegments(context.bucket, operation.prefix, key)
    const progress = await hydratePrefix(context, operation, toSegments, operation.destination, call)
    return { value: undefined, progress }
  },
  flush: async ({ identity, directories }) => {
    identity.check()
    await directories.settled()
    return { value: undefined }
  },
}

/** Runs one call on the bucket. */
export function runOperation(context: BucketContext, operation: Operation, call: Call): Promise<Outcome<unknown>> {
  const handler = handlers[operation.op] as Handler<Operation['op']>
  return handler(context, operation, call)
}
