// Runs an npm script that runs vitest, counts its tests, and runs the files that failed once more, alone: a machine under
// load must not hide what is broken behind what is slow. Writes `PASSED FAILED` to a file and adds a line per finding to
// another.
//
//   node count-tests.mjs SCRIPT COUNTS FINDINGS
import { spawnSync } from 'node:child_process'
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import process from 'node:process'
import { repositoryRoot } from '../workspace.mjs'
import { failedFiles, judge } from './outcome.mjs'

/** More files than this don't fail by bad luck, and running them again would only take time. */
const MOST_FILES_AGAIN = 12
const TIME_LIMIT_AGAIN_MS = 240_000

const [script, countsFile, findingsFile] = process.argv.slice(2)
const reports = mkdtempSync(join(tmpdir(), 'nexus-tests-'))
try {
  const { status, report } = run('first', [])
  const files = report === undefined ? [] : failedFiles(report)
  const again = files.length > 0 && files.length <= MOST_FILES_AGAIN ? runAlone(files) : undefined
  tell(status, report, again)
} finally {
  rmSync(reports, { recursive: true, force: true })
}

function runAlone(files) {
  process.stdout.write(`Once more, alone: ${files.map(short).join(', ')}\n`)
  return run('second', ['--', '--maxWorkers=1', ...files.map(short)], TIME_LIMIT_AGAIN_MS).report
}

function run(name, args, timeout) {
  const file = join(reports, `${name}.json`)
  const { status } = spawnSync('npm', ['run', '--silent', script, ...args], {
    cwd: repositoryRoot,
    stdio: 'inherit',
    env: { ...process.env, NEXUS_TEST_REPORT: file },
    timeout,
  })
  return { status, report: existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined }
}

function tell(status, report, again) {
  const { passed, failed, unsteady } =
    report === undefined ? { passed: 0, failed: [], unsteady: [] } : judge(report, again)
  const lines = [
    ...failed.map((failure) => `failed: ${described(failure)}`),
    ...unsteady.map((failure) => `unsteady: ${described(failure)}`),
  ]
  let failures = failed.length
  // Vitest also fails without a report, and on an error outside of any test.
  if (status !== 0 && failures + unsteady.length === 0) {
    failures = 1
    lines.push(
      `failed: npm run ${script} ended with ${status}: ${report === undefined ? 'no report' : 'an error outside of any test'}`,
    )
  }
  writeFileSync(countsFile, `${passed} ${failures}\n`)
  appendFileSync(findingsFile, lines.map((line) => `${line}\n`).join(''))
}

function described({ file, test, error }) {
  return `${[short(file), ...(test === '' ? [] : [test])].join(' > ')}: ${error}`
}

function short(file) {
  return relative(repositoryRoot, file)
}
