// Lets a process and its worker threads run the TypeScript sources: `node --import <this file> --conditions @nexus/source`.
// On Node 20 `--import tsx` alone reaches only the main thread.
import { isMainThread } from 'node:worker_threads'

if (!isMainThread) {
  const { register } = await import('tsx/esm/api')
  register()
} else if (!process.argv[1]?.includes('/vitest/dist/workers/')) {
  // A worker process of vitest loads the tests in its own way; it only hands these flags on, and starts sooner without.
  await import('tsx')
}
