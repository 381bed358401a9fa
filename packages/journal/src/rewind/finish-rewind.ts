import type { Failpoint } from '../files/failpoints.ts'
import { ACTIVE_SEGMENT, ARCHIVE_DIR, TEMP_PREFIX } from '../format/format.ts'
import { linkOrCopy, removeQuietly, syncDir, type JournalFs } from '../files/journal-fs.ts'
import { listNames, sealedFiles } from '../format/journal-files.ts'
import { INTENT_FILE, readIntent, STAGED_ACTIVE, type RewindIntent } from '../format/rewind-intent.ts'

/**
 * Brings a decided rewind to its end; every step can be repeated after a crash. Nothing to do is the usual case.
 *
 * Segments come first and leave last, so that the journal named by the intent can be read at every moment.
 */
export async function finishRewind(dir: string, fs: JournalFs, failpoint: Failpoint): Promise<void> {
  const intent = readIntent(dir, fs)
  if (!intent) {
    removeQuietly(fs, `${dir}/${STAGED_ACTIVE}`)
    return
  }
  await bringSegments(dir, intent, fs)
  await syncDir(fs, dir)
  failpoint('rewind:segments-linked')
  const names = listNames(fs, dir)
  if (names.includes(STAGED_ACTIVE)) fs.renameSync(`${dir}/${STAGED_ACTIVE}`, `${dir}/${ACTIVE_SEGMENT}`)
  failpoint('rewind:active-renamed')
  for (const { name, path } of sealedFiles(dir, names)) if (!intent.sealed.includes(name)) fs.unlinkSync(path)
  await syncDir(fs, dir)
  failpoint('rewind:segments-removed')
  fs.unlinkSync(`${dir}/${INTENT_FILE}`)
  await syncDir(fs, dir)
}

async function bringSegments(dir: string, intent: RewindIntent, fs: JournalFs): Promise<void> {
  const present = new Set(listNames(fs, dir))
  for (const name of intent.sealed) {
    if (present.has(name)) continue
    const temp = `${dir}/${TEMP_PREFIX}${name}`
    removeQuietly(fs, temp)
    await linkOrCopy(fs, `${dir}/${ARCHIVE_DIR}/${intent.archive}/${name}`, temp)
    fs.renameSync(temp, `${dir}/${name}`)
  }
}
