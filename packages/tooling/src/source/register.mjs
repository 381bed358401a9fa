// Lets a process and its worker threads run the TypeScript sources: `node --import <this file> --conditions @nexus/source`.
import { register } from 'node:module'
import { isMainThread } from 'node:worker_threads'

// A worker process of vitest loads the tests in its own way; it only hands these flags on.
if (!isMainThread || !process.argv[1]?.includes('/vitest/dist/workers/')) {
  process.setSourceMapsEnabled(true)
  register('./hooks.mjs', import.meta.url)
}
