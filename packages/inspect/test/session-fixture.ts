import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createHash } from 'node:crypto'
import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

/** A session that another process runs and writes to. It is killed when the test ends, or by `kill`. */
export async function busySession(root: string, id: string): Promise<{ dir: string; kill: () => Promise<void> }> {
  const child: ChildProcess = fork(fileURLToPath(new URL('session-child.ts', import.meta.url)), [root, id])
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  onTestFinished(kill)
  const died = once(child, 'exit').then(([code]) => Promise.reject(new Error(`the child ended with ${code}`)))
  died.catch(() => undefined)
  await Promise.race([once(child, 'message'), died])
  return { dir: join(root, 'sessions', id), kill }
}

/** Names, kinds, modes, sizes, times and contents of everything below a directory. */
export function fingerprint(dir: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .map((entry) => {
      const path = join(entry.parentPath, entry.name)
      const { mode, mtimeNs, ctimeNs, ino } = lstatSync(path, { bigint: true })
      const content = entry.isFile() ? createHash('sha256').update(readFileSync(path)).digest('hex') : ''
      return `${path} ${mode.toString(8)} ${mtimeNs} ${ctimeNs} ${ino} ${content}`
    })
    .toSorted()
}
