import { join } from 'node:path'
import { inspectTextLog } from '@nexus/host'
import { CONVERSATION_PATH } from '@nexus/durability/names'
import type { Logger } from '@nexus/host'
import type { RunningSession } from '../running-session.ts'

/** What a crash or a bad disk did to the journal and the conversation of a resumed session: one sentence for each. */
export async function findDamage(
  { dir, resumed, journal }: Pick<RunningSession, 'dir' | 'resumed' | 'journal'>,
  logger: Logger,
): Promise<string[]> {
  const found: string[] = []
  const [torn] = journal.damage
  if (torn !== undefined) {
    found.push(sentence(join(dir, 'journal', torn.file), torn.offset, torn.detail, journal.damage.length))
  }
  const path = join(dir, CONVERSATION_PATH)
  const report = resumed ? await inspectTextLog(path) : undefined
  const [cut] = report?.damage ?? []
  // Lines none of which is JSON are a plugin's own format.
  if (
    report !== undefined &&
    cut !== undefined &&
    (cut.why !== 'is not a JSON object' || cut.line > 1 || report.damaged < report.lines)
  ) {
    const error = sentence(path, cut.offset, `line ${cut.line} ${cut.why}`, report.damaged)
    logger.warn({ path, damage: report.damage.slice(0, 10), faults: report.damaged }, 'the conversation is damaged')
    found.push(error)
  }
  return found
}

function sentence(path: string, offset: number, what: string, faults: number): string {
  return `${path} is damaged at byte ${offset}: ${what}${faults === 1 ? '' : ` (and ${faults - 1} more)`}`
}
