import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { REPOSITORY_ROOT } from '../repository-root.ts'

/** A test that notices a mutant. */
export interface CatchingTest {
  /** Relative to the repository. */
  file: string
  /** Part of the test's name, as it stands in the file: picks what is run. */
  name: string
}

/** One way to break the code that must not go unnoticed. */
export interface WrittenMutant {
  /** Short, kebab-case, unique. */
  id: string
  /** What the broken code does. */
  breaks: string
  /** The source file, relative to the repository. Default: the one of the durability package that holds the text. */
  file?: string
  /** Text that occurs exactly once in the file, or in the package. */
  find: string
  replace: string
  /** At least one of these must fail. */
  tests: readonly CatchingTest[]
}

/** A mutant whose file is known. */
export type Mutant = WrittenMutant & { file: string }

const DURABILITY = 'packages/durability'

/** The mutant with its file: code that moves to another file of its package takes its mutants along. */
export function placed(mutant: WrittenMutant): Mutant {
  return { ...mutant, file: mutant.file ?? durabilitySourceWith(mutant.find) }
}

/** Where the text stands exactly once; without such a file the folder, which the tests of the catalog then complain of. */
function durabilitySourceWith(text: string): string {
  const holding = durabilitySources().filter((path) => readFileSync(join(REPOSITORY_ROOT, path), 'utf8').includes(text))
  return holding.length === 1 ? (holding[0] as string) : `${DURABILITY}/src`
}

let sources: string[] | undefined

function durabilitySources(): string[] {
  sources ??= readdirSync(join(REPOSITORY_ROOT, DURABILITY, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))
    .map((path) => `${DURABILITY}/src/${path}`)
  return sources
}

/** A source of the durability package by its name, or the end of its path: relative to the repository. */
export function durabilityFile(name: string): string {
  const [found, other] = readdirSync(join(REPOSITORY_ROOT, DURABILITY, 'src'), { recursive: true, encoding: 'utf8' })
    .map((path) => `${DURABILITY}/src/${path}`)
    .filter((path) => path.endsWith(`/${name}.ts`))
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
