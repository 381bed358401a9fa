import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { REPOSITORY_ROOT } from '../repository-root.ts'

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

const DURABILITY = 'packages/durability'

/** A source of the durability package by its name, whatever folder it lies in: relative to the repository. */
export function durabilityFile(name: string): string {
  const [found, other] = readdirSync(join(REPOSITORY_ROOT, DURABILITY, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((path) => basename(path) === `${name}.ts`)
    .map((path) => `${DURABILITY}/src/${path}`)
  if (found === undefined || other !== undefined) throw new Error(`no one file ${name}.ts below ${DURABILITY}/src`)
  return found
}

/** A test beside the durability code: `file` without its ending. */
export function unitTest(file: string, name: string): CatchingTest {
  return { file: durabilityFile(`${file}.test`), name }
}

/** A test of the durability package as a whole: `file` below `packages/durability/test`, without its ending. */
export function durabilityTest(file: string, name: string): CatchingTest {
  return { file: `${DURABILITY}/test/${file}.test.ts`, name }
}

/** A test of the engine as a whole: `file` below `packages/engine/test`, without its ending. */
export function engineTest(file: string, name: string): CatchingTest {
  return { file: `packages/engine/test/${file}.test.ts`, name }
}
