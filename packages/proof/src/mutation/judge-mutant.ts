import type { CatchingTest, Mutant } from '../mutants/mutant.ts'
import { fits, runTests, type TestOutcome } from './run-tests.ts'
import type { WorkspaceCopy } from './workspace-copy.ts'

/** What became of one mutant. Only `caught` is good. */
export interface MutantVerdict {
  mutant: Mutant
  verdict: 'caught' | 'survived' | 'invalid'
  /** The test that failed, or why there is no verdict. */
  detail: string
  durationMs: number
}

const RUN_LIMIT_MS = 120_000
const TEST_LIMIT_MS = 30_000

/**
 * Breaks the copy, runs the mutant's tests, and mends it again.
 *
 * @param every whether each of its tests must fail; else the first that does is enough
 */
export async function judgeMutant(mutant: Mutant, copy: WorkspaceCopy, every: boolean): Promise<MutantVerdict> {
  const startedMs = performance.now()
  const found = await copy.with(mutant, () => (every ? judgeByAll(mutant, copy) : judgeByOne(mutant, copy)))
  return { mutant, ...found, durationMs: performance.now() - startedMs }
}

type Finding = Pick<MutantVerdict, 'verdict' | 'detail'>

async function judgeByOne({ tests }: Mutant, copy: WorkspaceCopy): Promise<Finding> {
  let found: Finding = { verdict: 'invalid', detail: 'it names no test' }
  for (const test of tests) {
    found = await judgeBy(test, copy)
    if (found.verdict !== 'survived') return found
  }
  return found
}

async function judgeByAll({ tests }: Mutant, copy: WorkspaceCopy): Promise<Finding> {
  let found: Finding = { verdict: 'invalid', detail: 'it names no test' }
  for (const test of tests) {
    found = await judgeBy(test, copy)
    if (found.verdict !== 'caught') return { ...found, detail: `${test.file}: ${test.name}` }
  }
  return found
}

async function judgeBy(test: CatchingTest, copy: WorkspaceCopy): Promise<Finding> {
  return verdictOf(
    await runTests(copy.dir, [test], { timeoutMs: RUN_LIMIT_MS, testTimeoutMs: TEST_LIMIT_MS, workers: 1, bail: true }),
  )
}

function verdictOf({ failed, broken, timedOut }: TestOutcome): Finding {
  const [first] = failed
  if (first !== undefined) return { verdict: 'caught', detail: `${first.file}: ${first.name}` }
  if (timedOut) return { verdict: 'caught', detail: `the run did not end within ${RUN_LIMIT_MS / 1000} s` }
  // Code that can't be loaded fails every test: that proves nothing.
  if (broken !== undefined) return { verdict: 'invalid', detail: broken }
  return { verdict: 'survived', detail: '' }
}

/**
 * Looks whether the mutants fit the sources, and runs their tests on unbroken code.
 *
 * @returns what is wrong with them: a test that fails already, or that isn't there, would catch nothing
 */
export async function checkTests(mutants: readonly Mutant[], copy: WorkspaceCopy, workers: number): Promise<string[]> {
  const strays = mutants.filter((mutant) => !copy.takes(mutant))
  if (strays.length > 0) return strays.map(({ id, file }) => `${id}: its text is not there exactly once in ${file}`)
  const tests = mutants.flatMap((mutant) => mutant.tests)
  const options = { timeoutMs: RUN_LIMIT_MS * 3, testTimeoutMs: TEST_LIMIT_MS, workers, bail: false }
  const { passed, failed, broken, timedOut } = await runTests(copy.dir, tests, options)
  if (timedOut) return ['the tests do not end on unbroken code']
  if (broken !== undefined) return [broken]
  const wanted = (run: { file: string; name: string }): boolean => tests.some((test) => fits(run, test))
  const problems = failed.filter(wanted).map(({ file, name }) => `${file}: "${name}" fails on unbroken code`)
  for (const { id, tests: own } of mutants) {
    for (const test of own) {
      if (!passed.some((run) => fits(run, test)) && !failed.some((run) => fits(run, test)))
        problems.push(`${id}: no test of ${test.file} is called "${test.name}"`)
    }
  }
  return problems
}
