import { parentPort } from 'node:worker_threads'
import { type FileDigest, type HashOptions, hashSteps, runSteps } from './file-digest.ts'

/** What the pool sends: files to hash, in order. Flat, since cloning an object per file costs more than hashing a small one. */
export interface DigestBatch {
  ids: number[]
  /** Absolute paths, or numbers of open descriptors, joined by NUL. */
  files: string
  /** Bytes to hash, -1 for all. */
  limits: number[]
  /** Descriptors that are given a copy, -1 for none. */
  copyTo: number[]
}

/** What comes back for each. */
export type DigestReply =
  | { id: number; digest: FileDigest }
  | { id: number; error: { code: string | undefined; message: string } }

// Replies are gathered for a moment: a message each would cost more than the hash of a small file.
const GATHER_MS = 1

parentPort?.on('message', ({ ids, files, limits, copyTo }: DigestBatch) => {
  let replies: DigestReply[] = []
  let startedMs = performance.now()
  for (const [at, file] of files.split('\0').entries()) {
    replies.push(answer(ids[at] ?? -1, file, { limit: atLeast0(limits[at]), copyTo: atLeast0(copyTo[at]) }))
    if (performance.now() - startedMs < GATHER_MS) continue
    send(replies)
    replies = []
    startedMs = performance.now()
  }
  if (replies.length > 0) send(replies)
})
// Ready: from here on, asking costs no start-up.
send([])

function send(replies: DigestReply[]): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage(replies)
}

function atLeast0(value: number | undefined): number | undefined {
  return value === undefined || value < 0 ? undefined : value
}

function answer(id: number, file: string, options: HashOptions): DigestReply {
  try {
    return { id, digest: runSteps(hashSteps(file.startsWith('/') ? file : Number(file), options)) }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return { id, error: { code, message } }
  }
}
