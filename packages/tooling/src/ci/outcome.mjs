// What became of a run of tests, from vitest's JSON report. A file that could not run counts as one failure.

/** The failures of one file of a report: `{ file, test, error }`; `test` is empty when the file failed as a whole. */
function failuresOf({ name: file, status, message, assertionResults }) {
  const failed = assertionResults.filter((test) => test.status === 'failed')
  if (failed.length > 0) {
    return failed.map((test) => ({ file, test: test.fullName.trim(), error: firstLine(test.failureMessages[0]) }))
  }
  return status === 'failed' ? [{ file, test: '', error: firstLine(message) }] : []
}

const firstLine = (text) => (text ?? '').split('\n', 1)[0].slice(0, 300)

const passesOf = ({ assertionResults }) => assertionResults.filter(({ status }) => status === 'passed')

/** The files of a report that failed. */
export function failedFiles(report) {
  return report.testResults.filter((file) => failuresOf(file).length > 0).map(({ name }) => name)
}

/**
 * Judges a run, and a second one of the files that failed in it: what passed once counts as passed, and is unsteady.
 *
 * @returns `{ passed, failed, unsteady }`: a number, and two lists of `{ file, test, error }`
 */
export function judge(first, second) {
  const outcome = { passed: 0, failed: [], unsteady: [] }
  for (const file of first.testResults) {
    const failures = failuresOf(file)
    const again = second?.testResults.find(({ name }) => name === file.name)
    if (again === undefined) {
      outcome.passed += passesOf(file).length
      outcome.failed.push(...failures)
      continue
    }
    const passed = new Set([...passesOf(file), ...passesOf(again)].map(({ fullName }) => fullName.trim()))
    // Of a file that failed as a whole, the second run is the first to tell which of its tests fail.
    const repeated = failuresOf(again).filter(({ test }) => !passed.has(test))
    const mended = failures.filter(({ test }) => (test === '' ? repeated.length === 0 : passed.has(test)))
    const told = new Set(repeated.map(({ test }) => test))
    const notRunAgain = failures.filter((one) => one.test !== '' && !mended.includes(one) && !told.has(one.test))
    outcome.passed += passed.size
    outcome.failed.push(...repeated, ...notRunAgain)
    outcome.unsteady.push(...mended)
  }
  return outcome
}
