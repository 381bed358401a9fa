import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, relative } from 'node:path'
import type { Mutant } from '../mutants/mutant.ts'

/** Where packages lie, and what else a test run reads at the root. */
const SOURCE_DIRS = ['packages', 'modules', 'configs']
const ROOT_FILES = ['package.json', 'tsconfig.base.json', 'vitest.config.ts']
/** Made by builds and tools; tests run from source. */
const LEFT_OUT: ReadonlySet<string> = new Set(['dist', 'coverage', '.turbo', '.vite', '.vite-temp', '.unrun'])

/**
 * A copy of the repository's sources that may be broken. Links between packages stay inside it, since pnpm makes them
 * relative; everything from outside the repository is shared with the original.
 */
export class WorkspaceCopy {
  readonly dir: string

  /** @param root the repository */
  constructor(root: string) {
    this.dir = mkdtempSync(join(realpathSync(tmpdir()), 'nexus-mutants-'))
    for (const name of SOURCE_DIRS) {
      cpSync(join(root, name), join(this.dir, name), {
        recursive: true,
        verbatimSymlinks: true,
        filter: (path) => !LEFT_OUT.has(basename(path)),
      })
    }
    for (const name of ROOT_FILES) cpSync(join(root, name), join(this.dir, name))
    this.#linkModules(root)
  }

  /** Whether the mutant fits: its text is there exactly once. */
  takes({ file, find }: Mutant): boolean {
    return readFileSync(join(this.dir, file), 'utf8').split(find).length === 2
  }

  /** Runs `work` while the mutant is in place, and takes it away again whatever comes of it. */
  async with<T>({ file, find, replace }: Mutant, work: () => Promise<T>): Promise<T> {
    const path = join(this.dir, file)
    const original = readFileSync(path, 'utf8')
    writeFileSync(path, original.split(find).join(replace))
    try {
      return await work()
    } finally {
      writeFileSync(path, original)
    }
  }

  remove(): void {
    rmSync(this.dir, { recursive: true, force: true })
  }

  /** The root's dependencies by links of our own, so that those on packages lead into the copy. */
  #linkModules(root: string): void {
    const from = join(root, 'node_modules')
    const to = join(this.dir, 'node_modules')
    mkdirSync(join(to, '@nexus'), { recursive: true })
    for (const name of readdirSync(from)) {
      if (name !== '@nexus' && !LEFT_OUT.has(name)) symlinkSync(join(from, name), join(to, name))
    }
    for (const name of readdirSync(join(from, '@nexus'))) {
      const target = relative(root, realpathSync(join(from, '@nexus', name)))
      symlinkSync(join(this.dir, target), join(to, '@nexus', name))
    }
  }
}
