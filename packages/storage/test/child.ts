import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { onTestFinished } from 'vitest'

/** A forked child, everything it has said so far, and how it ended. */
export interface Child {
  readonly process: ChildProcess
  readonly messages: unknown[]
  /** Resolves with the signal or exit code. */
  readonly ended: Promise<NodeJS.Signals | number | null>
  /** Resolves when the child has said so many things, or has ended. */
  heard(count: number): Promise<void>
}

/** Runs a TypeScript program of `fixtures/` with the flags that run this one from source. Killed when the test ends. */
export function startChild(program: string, args: readonly string[]): Child {
  const child = fork(new URL(`./fixtures/${program}`, import.meta.url), args, { execArgv: process.execArgv })
  const messages: unknown[] = []
  const state = { over: false }
  child.on('message', (message) => messages.push(message))
  const ended = once(child, 'exit').then(([code, signal]) => {
    state.over = true
    return (signal ?? code) as NodeJS.Signals | number | null
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const heard = async (count: number): Promise<void> => {
    while (messages.length < count && !state.over) await Promise.race([once(child, 'message'), ended])
  }
  return { process: child, messages, ended, heard }
}
