import { parentPort } from 'node:worker_threads'
import { hashSteps, runSteps, type FileDigest } from '@nexus/host'

/** What the pool sends: files to hash, in order. Flat, since cloning an object per file costs more than hashing a small one. */
export interface DigestBatch {
  ids: number[]
  /** Joined by NUL, which no path contains. */
  paths: string
  /** Bytes to hash, -1 for all. */
  limits: number[]
}

/** What comes back for each. */
export type DigestReply =
  | { id: number; digest: FileDigest }
  | { id: number; error: { code: string | undefined; message: string } }

// Replies are gathered for a moment: a message each would cost more than the hash of a small file.
const GATHER_MS = 1

parentPort?.on('message', ({ ids, paths, limits }: DigestBatch) => {
  let replies: DigestReply[] = []
  let startedMs = performance.now()
  for (const [at, path] of paths.split('\0').entries()) {
    replies.push(answer(ids[at] ?? -1, path, limits[at] ?? -1))
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

function answer(id: number, path: string, limit: number): DigestReply {
  try {
    return { id, digest: runSteps(hashSteps(path, limit < 0 ? undefined : limit)) }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return { id, error: { code, message } }
  }
}
