import type { Failpoint } from '../files/failpoints.ts'
import { ACTIVE_SEGMENT, ARCHIVE_DIR, HEADER_FILE, TEMP_PREFIX } from '../format/format.ts'
import { copyFile, linkOrCopy, syncDir, type JournalFs } from '../files/journal-fs.ts'
import { activePath, listNames, listSealed } from '../format/journal-files.ts'

/**
 * Puts a copy of the journal under `archive/<name>`, complete or not at all. Sealed segments never change and are linked;
 * the rest is copied.
 */
export async function archiveJournal(dir: string, name: string, fs: JournalFs, failpoint: Failpoint): Promise<void> {
  const archives = `${dir}/${ARCHIVE_DIR}`
  fs.mkdirSync(archives, { recursive: true, mode: 0o700 })
  for (const leftover of listNames(fs, archives)) {
    if (leftover.startsWith(TEMP_PREFIX)) fs.rmSync(`${archives}/${leftover}`, { recursive: true, force: true })
  }
  const temp = `${archives}/${TEMP_PREFIX}${name}`
  fs.mkdirSync(temp, { mode: 0o700 })
  for (const sealed of listSealed(dir, fs)) await linkOrCopy(fs, sealed.path, `${temp}/${sealed.name}`)
  await copyFile(fs, `${dir}/${HEADER_FILE}`, `${temp}/${HEADER_FILE}`)
  await copyFile(fs, activePath(dir, fs), `${temp}/${ACTIVE_SEGMENT}`)
  await syncDir(fs, temp)
  failpoint('rewind:archive-copied')
  fs.renameSync(temp, `${archives}/${name}`)
  await syncDir(fs, archives)
  await syncDir(fs, dir)
}
