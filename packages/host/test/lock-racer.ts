// A process that takes session locks on command, for the tests that let several race.
import nodeFs from 'node:fs'
import { acquireSessionLock } from '../src/lock/session-lock.ts'
import type { SessionLock } from '../src/lock/held-lock.ts'
import type { LockFs } from '../src/lock/lock-record.ts'

export interface RaceCommand {
  dir: string
  /** When to start, so that all start together. */
  startAtMs: number
  /** Kill this process right before it would rename its claim into place. */
  dieBeforeRename?: boolean
}

export type RaceAnswer = { ready: true } | { won: boolean; code?: string; message?: string; heldPid?: number }

let lock: SessionLock | undefined

async function race(command: RaceCommand): Promise<RaceAnswer> {
  while (Date.now() < command.startAtMs);
  const fs: LockFs = {
    ...nodeFs,
    renameSync: (from, to): void => {
      if (command.dieBeforeRename === true) process.kill(process.pid, 'SIGKILL')
      nodeFs.renameSync(from, to)
    },
  }
  try {
    lock = await acquireSessionLock(command.dir, { transport: 'racer', fs })
    return { won: true }
  } catch (error) {
    const { code, message, holder } = error as { code?: string; message: string; holder?: { pid: number } }
    return { won: false, message, ...(code && { code }), ...(holder && { heldPid: holder.pid }) }
  }
}

process.on('message', (command: RaceCommand | 'release' | 'exit') => {
  if (command === 'exit') process.exit()
  if (command === 'release') {
    lock?.release()
    process.send?.({ ready: true } satisfies RaceAnswer)
  } else void race(command).then((answer) => process.send?.(answer))
})
process.send?.({ ready: true } satisfies RaceAnswer)
