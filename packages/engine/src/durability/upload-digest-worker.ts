import { parentPort } from 'node:worker_threads'
import { hashSteps, runSteps, type FileDigest } from './upload-hash.ts'

/** What the pool sends: files to hash, in order. */
export interface DigestRequest {
  id: number
  path: string
  limit: number | undefined
}

/** What comes back for each. */
export type DigestReply =
  | { id: number; digest: FileDigest }
  | { id: number; error: { code: string | undefined; message: string } }

// Replies are gathered for a moment: a message each would cost more than the hash of a small file.
const GATHER_MS = 1

parentPort?.on('message', (requests: DigestRequest[]) => {
  let replies: DigestReply[] = []
  let startedMs = performance.now()
  for (const request of requests) {
    replies.push(answer(request))
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

function answer({ id, path, limit }: DigestRequest): DigestReply {
  try {
    return { id, digest: runSteps(hashSteps(path, limit)) }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return { id, error: { code, message } }
  }
}
