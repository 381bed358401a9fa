import { fork } from 'node:child_process'
import process from 'node:process'
import { NexusError } from '@nexus/errors'
import { isAborted, type CopyReply } from './copy-protocol.ts'
import type { CopyOutcome, CopyTask } from './copy-task.ts'

const LOOK_MS = 100

/**
 * Runs a copy in a process of its own. What that process locks is locked, also where this one has lost its locks on the file; and
 * what it closes drops none of this one's.
 *
 * @throws SQLite's error; NexusError `UNAVAILABLE` when the process could not be started, or died
 */
export function copyInChild(task: CopyTask, abort: SharedArrayBuffer): Promise<CopyOutcome> {
  const isSource = import.meta.url.endsWith('.ts')
  const program = new URL(`./copy-worker${isSource ? '.ts' : '.js'}`, import.meta.url)
  return new Promise((resolve, reject) => {
    const child = fork(program, [], { execArgv: isSource ? process.execArgv : [], stdio: 'ignore' })
    // What a child shares with this process is no memory, so it is ended instead of told.
    const looking = setInterval(() => isAborted(abort) && child.kill('SIGKILL'), LOOK_MS).unref()
    const fail = (cause: unknown): void => {
      clearInterval(looking)
      const message = `The process that copies ${task.livePath} ended before it was done`
      reject(new NexusError('UNAVAILABLE', message, { op: 'storage.capture', key: task.livePath, cause }))
    }
    child.once('error', fail)
    child.once('exit', (code, signal) => fail(new Error(`it ended with ${signal ?? code}`)))
    child.once('message', (reply: CopyReply) => {
      if (reply.type === 'done') resolve(reply.outcome)
      else if (reply.type === 'failed') reject(Object.assign(new Error(reply.error.message), reply.error))
    })
    child.send(task)
  })
}
