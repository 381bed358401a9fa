// The thread on which all file I/O of one bucket happens, by synchronous calls only. A call that never returns, because the
// mount is dead, then holds up this bucket and nothing else: libuv's pool, which the journal and every other file of the
// process share, is not involved.
import { parentPort, workerData } from 'node:worker_threads'
import type { WorkerData } from './protocol.ts'
import { serve } from './serve.ts'

if (parentPort !== null) serve(parentPort, workerData as WorkerData)
