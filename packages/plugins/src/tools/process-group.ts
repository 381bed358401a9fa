import { type ChildProcess, spawn } from 'node:child_process'
import process from 'node:process'
import { NexusError } from '@nexus/engine'

/** How a command is run. */
export interface CommandOptions {
  cwd: string
  env: NodeJS.ProcessEnv
  timeoutMs: number
  /** Bytes kept of standard output and standard error together. */
  maxOutputBytes: number
  signal: AbortSignal
}

/** How a command ended. */
export interface CommandResult {
  exitCode: number | null
  /** The signal that ended it. */
  killedBy: NodeJS.Signals | null
  timedOut: boolean
  /** Standard output and standard error as they came. */
  output: string
  /** Bytes that the limit cut off. */
  droppedBytes: number
}

/** Commands of one turn, each with a process group of its own, so that everything they started can be ended with them. */
export class ProcessGroups {
  readonly #pids = new Set<number>()

  /** Runs a command of the shell to its end, its time-out, or the signal. What it left in the background goes on. */
  async run(command: string, options: CommandOptions): Promise<CommandResult> {
    options.signal.throwIfAborted()
    // A group of its own: the shell's children get no signal of the terminal, and one kill reaches them all.
    const child = spawn('/bin/sh', ['-c', command], {
      cwd: options.cwd,
      env: options.env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    if (child.pid !== undefined) this.#pids.add(child.pid)
    const output = keepOutput(child, options.maxOutputBytes)
    let timedOut = false
    const kill = (): void => killGroup(child.pid)
    const timer = setTimeout(() => {
      timedOut = true
      kill()
    }, options.timeoutMs)
    options.signal.addEventListener('abort', kill, { once: true })
    try {
      const [exitCode, killedBy] = await ended(child)
      options.signal.throwIfAborted()
      return { exitCode, killedBy, timedOut, ...output() }
    } finally {
      clearTimeout(timer)
      options.signal.removeEventListener('abort', kill)
      // The number of a group that is empty may soon be another's.
      if (child.pid !== undefined && !hasMembers(child.pid)) this.#pids.delete(child.pid)
    }
  }

  /** Ends everything that the commands started and that still runs. */
  killAll(): void {
    for (const pid of this.#pids) killGroup(pid)
    this.#pids.clear()
  }
}

/** The end of the shell itself: a child in the background may hold its pipes open for long. */
async function ended(child: ChildProcess): Promise<[number | null, NodeJS.Signals | null]> {
  return await new Promise((resolve, reject) => {
    child.once('error', (cause) =>
      reject(
        new NexusError('LOCAL_IO', `the command could not be started: ${cause.message}`, { op: 'tool.shell', cause }),
      ),
    )
    child.once('exit', (code, signal) => {
      // What it wrote last may still be in the pipes.
      const finish = (): void => resolve([code, signal])
      child.once('close', finish)
      setTimeout(finish, PIPES_MS).unref()
    })
  })
}

const PIPES_MS = 250

function keepOutput(child: ChildProcess, limitBytes: number): () => Pick<CommandResult, 'output' | 'droppedBytes'> {
  const chunks: Buffer[] = []
  let keptBytes = 0
  let droppedBytes = 0
  const take = (chunk: Buffer): void => {
    const kept = chunk.subarray(0, limitBytes - keptBytes)
    if (kept.byteLength > 0) chunks.push(kept)
    keptBytes += kept.byteLength
    droppedBytes += chunk.byteLength - kept.byteLength
  }
  child.stdout?.on('data', take)
  child.stderr?.on('data', take)
  return () => ({ output: Buffer.concat(chunks).toString('utf8'), droppedBytes })
}

function hasMembers(pid: number): boolean {
  try {
    return process.kill(-pid, 0)
  } catch {
    return false
  }
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}
