/** A test that notices a mutant. */
export interface CatchingTest {
  /** Relative to the repository. */
  file: string
  /** Part of the test's name, as it stands in the file: picks what is run. */
  name: string
}

/** One way to break the durability code that must not go unnoticed. */
export interface Mutant {
  /** Short, kebab-case, unique. */
  id: string
  /** What the broken code does. */
  breaks: string
  /** The source file, relative to the repository. */
  file: string
  /** Text that occurs exactly once in the file. */
  find: string
  replace: string
  /** At least one of these must fail. */
  tests: readonly CatchingTest[]
}

/** Where the durability code lies. */
export const DURABILITY = 'packages/engine/src/durability'

/** A test beside the durability code: `file` without its ending. */
export function unitTest(file: string, name: string): CatchingTest {
  return { file: `${DURABILITY}/${file}.test.ts`, name }
}

/** A test of the engine as a whole: `file` below `packages/engine/test`, without its ending. */
export function engineTest(file: string, name: string): CatchingTest {
  return { file: `packages/engine/test/${file}.test.ts`, name }
}
