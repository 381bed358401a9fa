import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import process from 'node:process'
import type { CatchingTest } from '../mutants/mutant.ts'

/** What became of the tests that were picked. */
export interface TestOutcome {
  passed: TestRun[]
  failed: TestRun[]
  /** Why there is no verdict: a file that could not be loaded, no report. */
  broken?: string
  timedOut: boolean
}

export interface TestRun {
  /** Relative to the copy. */
  file: string
  name: string
}

export interface RunTestsOptions {
  /** The whole run is killed after it. */
  timeoutMs: number
  testTimeoutMs: number
  workers: number
  /** Stop at the first failure. */
  bail: boolean
}

interface Report {
  testResults: {
    name: string
    message: string
    assertionResults: { fullName: string; status: string }[]
  }[]
}

/** Runs the named tests of a repository copy, and no others, through vitest. */
export async function runTests(
  dir: string,
  tests: readonly CatchingTest[],
  { timeoutMs, testTimeoutMs, workers, bail }: RunTestsOptions,
): Promise<TestOutcome> {
  const scratch = mkdtempSync(join(tmpdir(), 'nexus-mutant-run-'))
  const reportPath = join(scratch, 'report.json')
  const files = [...new Set(tests.map(({ file }) => file))]
  const names = [...new Set(tests.map(({ name }) => escapePattern(name)))]
  const args = [
    join(dir, 'node_modules/vitest/vitest.mjs'),
    'run',
    ...files,
    `--testNamePattern=(${names.join('|')})`,
    `--testTimeout=${testTimeoutMs}`,
    '--reporter=json',
    `--outputFile=${reportPath}`,
    `--maxWorkers=${workers}`,
    ...(bail ? ['--bail=1'] : []),
  ]
  try {
    const { output, timedOut } = await runNode(args, dir, timeoutMs)
    return { ...readOutcome(reportPath, dir, output), timedOut }
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** Tests that were picked by one of several patterns are counted only where both file and name fit. */
export function fits({ file, name }: TestRun, test: CatchingTest): boolean {
  return file === test.file && name.includes(test.name)
}

function escapePattern(name: string): string {
  return name.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`)
}

async function runNode(args: string[], cwd: string, timeoutMs: number): Promise<{ output: string; timedOut: boolean }> {
  // A group of its own: what it started must end with it.
  const child = spawn(process.execPath, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  let timedOut = false
  const limit = setTimeout(() => {
    timedOut = true
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  }, timeoutMs)
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', () => resolve())
  })
  clearTimeout(limit)
  return { output, timedOut }
}

function readOutcome(reportPath: string, dir: string, output: string): Omit<TestOutcome, 'timedOut'> {
  const outcome: Omit<TestOutcome, 'timedOut'> = { passed: [], failed: [] }
  let report: Report
  try {
    report = JSON.parse(readFileSync(reportPath, 'utf8')) as Report
  } catch {
    return { ...outcome, broken: `no report was written:\n${output}` }
  }
  for (const { name: path, message, assertionResults } of report.testResults) {
    const file = relative(dir, path)
    if (assertionResults.length === 0) outcome.broken = `${file}: ${message}`
    for (const { fullName: name, status } of assertionResults) {
      if (status === 'passed') outcome.passed.push({ file, name })
      if (status === 'failed') outcome.failed.push({ file, name })
    }
  }
  return outcome
}
