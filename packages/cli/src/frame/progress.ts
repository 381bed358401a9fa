import process from 'node:process'
import type { CopyProgress } from '@nexus/inspect'
import { formatBytes, progressBar } from '../output.ts'
import type { Context } from './context.ts'

const FIRST_MS = 1000
const EVERY_MS = 200

/** Shows how far a copy is, with its rate and the time left, once it takes more than a second; on a terminal only. */
export function showProgress(
  context: Context,
  what: string,
): { on: (progress: CopyProgress) => void; end: () => void } {
  const isShown = process.stderr.isTTY && !context.globals.quiet && !context.globals.json
  const startedMs = performance.now()
  let shownMs = 0
  const on = ({ bytes, totalBytes, files, totalFiles }: CopyProgress): void => {
    const nowMs = performance.now()
    if (!isShown || nowMs - startedMs < FIRST_MS || nowMs - shownMs < EVERY_MS) return
    shownMs = nowMs
    const perSecond = bytes / ((nowMs - startedMs) / 1000)
    const left = perSecond === 0 ? '' : `, ${Math.ceil((totalBytes - bytes) / perSecond)} s left`
    const rate = `${formatBytes(perSecond)}/s${left}`
    process.stderr.write(
      `\r\u001b[K${what} ${progressBar(bytes, totalBytes, 20)} ${files}/${totalFiles} files, ${rate}`,
    )
  }
  const end = (): void => {
    if (shownMs > 0) process.stderr.write('\r\u001b[K')
  }
  return { on, end }
}
