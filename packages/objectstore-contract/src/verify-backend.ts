import { randomBytes } from 'node:crypto'
import {
  type Backend,
  forEachBounded,
  joinKey,
  type Logger,
  type ObjectInfo,
  type ObjectStoreConfig,
  open,
  redactSecrets,
} from '@nexus/objectstore'
import { type CaseReport, type ContractReport, runBackendContract } from './run-backend-contract.ts'
import type { SuiteOptions } from './run-case.ts'

/** What {@link verifyBackend} takes besides the configuration. */
export interface VerifyOptions extends Pick<
  SuiteOptions,
  'listProbeCount' | 'objectAtPrefix' | 'outOfProcess' | 'timeoutMs'
> {
  logger: Logger
  /** Called as each case ends. */
  onCase?: (report: CaseReport) => void
  /** Fires: no further case is started. What was stored is removed all the same, and the promise rejects with the reason. */
  signal?: AbortSignal
}

/** What {@link verifyBackend} found. */
export interface VerifyReport extends ContractReport {
  /** Markdown for people: a line per case, and what failed in full. Holds no credentials. */
  table: string
  /** The prefix of the bucket that the objects were under. */
  prefix: string
  /** Objects that could not be removed, as keys below `prefix`. */
  leftovers: string[]
}

/** How long the cleanup may take when the run was given up, in ms. */
const CLEANUP_MS = 120_000

/**
 * Runs the contract suite against a real bucket, through the registry, below a prefix of its own. The cleanup always runs,
 * also after failures and aborts, and says what it could not remove.
 *
 * @throws what opening the backend throws; the signal's reason, once it has cleaned up
 */
export async function verifyBackend(config: ObjectStoreConfig, options: VerifyOptions): Promise<VerifyReport> {
  const { logger, signal, onCase, ...suite } = options
  const prefix = joinKey(config.prefix, `nexus-verify-${randomBytes(8).toString('hex')}`)
  let cases = 0
  const openAt = (parts: Partial<ObjectStoreConfig>): Promise<Backend> => open({ ...config, ...parts }, { logger })
  const all = await openAt({ prefix })
  let report: ContractReport | undefined
  let leftovers: string[] = []
  try {
    report = await runBackendContract(() => openAt({ prefix: `${prefix}/case-${++cases}` }), {
      ...suite,
      ...(signal === undefined ? {} : { signal }),
      ...(onCase === undefined ? {} : { onCase }),
      configured: ({ prefix: below = '', options: changed }, caseId) =>
        openAt({ prefix: joinKey(`${prefix}/${caseId}`, below), options: { ...config.options, ...changed } }),
      missingBucket: () => openAt({ bucket: `${config.bucket}-${randomBytes(4).toString('hex')}` }),
    })
  } finally {
    leftovers = await empty(all)
    await all.close?.()
  }
  return { ...report, prefix, leftovers, table: tableOf(config, report, leftovers) }
}

/** Deletes everything that a backend sees; gives what is still there. */
async function empty(backend: Backend): Promise<string[]> {
  const signal = AbortSignal.timeout(CLEANUP_MS)
  try {
    const remove = ({ key }: ObjectInfo): Promise<void> => backend.delete(key, { signal }).catch(() => undefined)
    await forEachBounded(await backend.list('', { signal }), 16, remove)
    return (await backend.list('', { signal })).map(({ key }) => key)
  } catch (error) {
    return [`whatever is there: it could not be listed (${redactSecrets(String(error))})`]
  }
}

function tableOf({ backend }: ObjectStoreConfig, report: ContractReport, leftovers: readonly string[]): string {
  const { passed, failed, skipped } = report
  const seconds = Math.round(report.durationMs / 100) / 10
  const rows = report.cases.map(({ name, status, reason, durationMs }) => {
    const note = reason === undefined ? '' : `: ${reason}`
    return `| ${cell(name)} | ${status}${cell(note)} | ${Math.round(durationMs)} |`
  })
  const failures = report.cases.flatMap(({ name, error }) =>
    error === undefined ? [] : [`### ${name}`, error.message],
  )
  const rest = leftovers.length === 0 ? [] : [`Left behind: ${leftovers.join(', ')}`]
  const lines = [
    `Backend \`${backend}\`: ${passed} passed, ${failed} failed, ${skipped} skipped, in ${seconds} s (Node ${process.version})`,
    ['| case | result | ms |', '|---|---|---|', ...rows].join('\n'),
    ...failures,
    ...rest,
  ]
  // By parts: a table is longer than what redaction keeps of one text.
  return lines
    .flatMap((part) => part.split('\n'))
    .map(redactSecrets)
    .join('\n')
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ')
}
