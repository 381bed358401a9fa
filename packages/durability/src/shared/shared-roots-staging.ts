import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { systemCode } from '@nexus/errors'
import { type Logger, systemProcesses } from '@nexus/host'
import { SHARED_FOLDER } from './shared-roots-record.ts'

const NAME = /^staging-(\d+)-[0-9a-f]{16}$/
/** A pid may mean another process by then, or one of another container. */
const OLD_MS = 24 * 60 * 60 * 1000

/** Runs the work with a private directory on the file system of the shared stores, and removes it. */
export async function withSharedStaging<T>(storageRoot: string, work: (dir: string) => Promise<T>): Promise<T> {
  const dir = join(storageRoot, SHARED_FOLDER, `staging-${process.pid}-${randomBytes(8).toString('hex')}`)
  await mkdir(dir, { recursive: true, mode: 0o700 })
  try {
    return await work(dir)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** Removes what killed processes left. Failures are logged: it is only space. */
export async function sweepSharedStaging(storageRoot: string, logger: Logger): Promise<void> {
  const folder = join(storageRoot, SHARED_FOLDER)
  try {
    for (const name of await readdir(folder)) {
      const pid = NAME.exec(name)?.[1]
      if (pid === undefined) continue
      const path = join(folder, name)
      const isOld = Date.now() - (await stat(path)).mtimeMs > OLD_MS
      if (isOld || systemProcesses.look(Number(pid)) === 'gone') await rm(path, { recursive: true, force: true })
    }
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return
    logger.warn({ err: error, folder }, 'staging directories of killed processes could not be removed')
  }
}
