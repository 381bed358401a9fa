import { describe, expect, it } from 'vitest'

interface Failure {
  file: string
  test: string
  error: string
}
interface Outcome {
  passed: number
  failed: Failure[]
  unsteady: Failure[]
}

// The checks are plain JavaScript, so that they run before anything is built.
const path: string = '../src/ci/outcome.mjs'
const { judge, failedFiles } = (await import(path)) as {
  judge: (first: object, second?: object) => Outcome
  failedFiles: (report: object) => string[]
}

/** A report of vitest: each file with its tests as `name: 'passed' | 'skipped' | an error`, or the error that stopped it. */
function report(files: Record<string, Record<string, string> | string>): object {
  return {
    testResults: Object.entries(files).map(([name, tests]) => {
      if (typeof tests === 'string') return { name, status: 'failed', message: tests, assertionResults: [] }
      const assertionResults = Object.entries(tests).map(([fullName, state]) =>
        state === 'passed' || state === 'skipped'
          ? { fullName, status: state, failureMessages: [] }
          : { fullName, status: 'failed', failureMessages: [`${state}\n    at line 3`] },
      )
      const status = assertionResults.some((test) => test.status === 'failed') ? 'failed' : 'passed'
      return { name, status, message: '', assertionResults }
    }),
  }
}

describe('the outcome of a run of tests', () => {
  it('counts what passed, and names each failure with the first line of its error', () => {
    const first = report({ 'a.ts': { one: 'passed', two: 'Error: no', three: 'skipped' }, 'b.ts': { four: 'passed' } })
    expect(failedFiles(first)).toEqual(['a.ts'])
    expect(judge(first)).toEqual({
      passed: 2,
      failed: [{ file: 'a.ts', test: 'two', error: 'Error: no' }],
      unsteady: [],
    })
  })

  it('counts a file that could not run as one failure', () => {
    const first = report({ 'a.ts': 'SyntaxError: x\nat y', 'b.ts': { four: 'passed' } })
    expect(failedFiles(first)).toEqual(['a.ts'])
    expect(judge(first)).toEqual({
      passed: 1,
      failed: [{ file: 'a.ts', test: '', error: 'SyntaxError: x' }],
      unsteady: [],
    })
  })

  it('calls a test that passes the second time unsteady, and one that fails again failed', () => {
    const first = report({ 'a.ts': { one: 'Error: 1', two: 'Error: 2', three: 'passed' }, 'b.ts': { four: 'passed' } })
    const second = report({ 'a.ts': { one: 'passed', two: 'Error: 22', three: 'Error: 3' } })
    expect(judge(first, second)).toEqual({
      passed: 3,
      failed: [{ file: 'a.ts', test: 'two', error: 'Error: 22' }],
      unsteady: [{ file: 'a.ts', test: 'one', error: 'Error: 1' }],
    })
  })

  it('takes the tests of a file from its second run where the first could not run it', () => {
    const first = report({ 'a.ts': 'Error: no worker', 'b.ts': 'Error: no worker' })
    const second = report({ 'a.ts': { one: 'passed', two: 'passed' }, 'b.ts': { three: 'Error: 3', four: 'passed' } })
    expect(judge(first, second)).toEqual({
      passed: 3,
      failed: [{ file: 'b.ts', test: 'three', error: 'Error: 3' }],
      unsteady: [{ file: 'a.ts', test: '', error: 'Error: no worker' }],
    })
  })

  it('never takes a test that was not run again for one that passed', () => {
    const first = report({
      'a.ts': { one: 'Error: 1', two: 'Error: 2' },
      'b.ts': { two: 'Error: 2' },
      'c.ts': 'Error: 3',
    })
    const second = report({ 'a.ts': { one: 'skipped', two: 'Error: 2' }, 'b.ts': 'Error: stopped' })
    const { passed, failed, unsteady } = judge(first, second)
    expect(passed).toBe(0)
    expect(failed.map(({ file, test }) => `${file} ${test}`).toSorted()).toEqual([
      'a.ts one',
      'a.ts two',
      'b.ts ',
      'b.ts two',
      'c.ts ',
    ])
    expect(unsteady).toEqual([])
  })
})
