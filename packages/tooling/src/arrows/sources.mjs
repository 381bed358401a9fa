import { existsSync, readdirSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import ts from 'typescript'

/** Absolute paths of every program text of a package, tests included. */
export function textsOf(directory) {
  return ['src', 'test', 'scripts'].flatMap((folder) => {
    const path = join(directory, folder)
    if (!existsSync(path)) return []
    return readdirSync(path, { recursive: true })
      .filter((name) => /\.m?[jt]s$/.test(name))
      .map((name) => join(path, name))
  })
}

/** Whether it is among what a package publishes: in `src`, no test, and not in `testing`, which is for the tests of others. */
export function isSource(directory, path) {
  const within = relative(join(directory, 'src'), path)
  return !/^\.\.|^testing\//.test(within) && /\.m?ts$/.test(within) && !/\.test(-d)?\.ts$/.test(within)
}

/** Every module that a source names in an import or export, types included. */
export function importsOf(text) {
  return ts.preProcessFile(text, true, true).importedFiles.map(({ fileName }) => fileName)
}

/** The name of the package that an import of one is from. */
export function packageOf(specifier) {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

/** The folder of a file below `src`; `.` is `src` itself. */
export function folderOf(directory, file) {
  return relative(join(directory, 'src'), dirname(file)) || '.'
}

/** Where a pointer into the repository leads, or undefined where nothing is. */
export function targetOf(root, path) {
  const target = resolve(root, path)
  return target.startsWith(`${root}/`) && existsSync(target) ? target : undefined
}
