import { fork, type ChildProcess } from 'node:child_process'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { HostOrder, HostReport } from './host-order.ts'

/** How a host process ended, with everything it reported before. */
export interface HostRun {
  reports: HostReport[]
  exitCode: number | null
  signal: NodeJS.Signals | null
  stderr: string
}

/** No host of the demo runs longer than this. */
const HOST_LIMIT_MS = 120_000

// Beside this file, with its extension: `.ts` when run from source, `.js` in the build.
const HOST_FILE = fileURLToPath(new URL(`./host${extname(import.meta.url)}`, import.meta.url))

/**
 * Starts a host as a process of its own and waits for its end.
 *
 * @param onReport called for each report; it may kill the child
 */
export async function runHost(
  order: HostOrder,
  onReport: (report: HostReport, child: ChildProcess) => void = () => undefined,
): Promise<HostRun> {
  const child = fork(HOST_FILE, [JSON.stringify(order)], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  const reports: HostReport[] = []
  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  child.on('message', (message) => {
    const report = message as HostReport
    reports.push(report)
    onReport(report, child)
  })
  const limit = setTimeout(() => child.kill('SIGKILL'), HOST_LIMIT_MS)
  try {
    return await new Promise<HostRun>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', (exitCode, signal) => resolve({ reports, exitCode, signal, stderr }))
    })
  } finally {
    clearTimeout(limit)
  }
}

/** The last report of one kind. */
export function lastReport<K extends HostReport['kind']>(
  run: HostRun,
  kind: K,
): Extract<HostReport, { kind: K }> | undefined {
  return run.reports.findLast((report): report is Extract<HostReport, { kind: K }> => report.kind === kind)
}
