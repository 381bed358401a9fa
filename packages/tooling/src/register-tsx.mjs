// Lets a process and its worker threads run the TypeScript sources: `node --import <this file> --conditions @nexus/source`.
// On Node 20 `--import tsx` alone reaches only the main thread.
import { isMainThread } from 'node:worker_threads'

if (isMainThread) {
  await import('tsx')
} else {
  const { register } = await import('tsx/esm/api')
  register()
}
