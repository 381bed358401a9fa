import { readFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { workspacePackages } from '../workspace.mjs'
import { folderOf, importsOf, isSource, packageOf, targetOf, textsOf } from './sources.mjs'

/**
 * What is wrong with a repository's arrows: between packages, between the folders of a package, and from comments to
 * pages. Each problem is a sentence that names the file.
 *
 * @param root absolute path of the repository
 * @param tables `packages` and `free` (see packages.mjs); `folders`, `mostFiles` and `mostLines` (see folders.mjs)
 */
export function arrowProblems(root, tables) {
  return workspacePackages(root).flatMap((workspacePackage) => {
    const { directory, manifest } = workspacePackage
    const texts = textsOf(directory).map((path) => ({
      path,
      where: relative(root, path),
      text: readFileSync(path, 'utf8'),
    }))
    const pointers = pointerProblems(root, texts)
    if (tables.free.has(manifest.name)) return pointers
    const sources = texts
      .filter(({ path }) => isSource(directory, path))
      .map((source) => ({ ...source, imports: importsOf(source.text) }))
    return [
      ...pointers,
      ...packageProblems(workspacePackage, sources, tables),
      ...folderProblems(workspacePackage, sources, tables),
      ...sizeProblems(sources, tables),
    ]
  })
}

function packageProblems({ manifest }, sources, { packages }) {
  const allowed = packages[manifest.name]
  if (allowed === undefined) return [`${manifest.name} has no row in arrows/packages.mjs: say what it may depend on`]
  const declared = Object.keys({
    ...manifest.dependencies,
    ...manifest.peerDependencies,
    ...manifest.optionalDependencies,
  })
  const problems = declared
    .filter((name) => !allows(allowed, name))
    .map((name) => `${manifest.name} declares a dependency on ${name}, which it may not have`)
  for (const { where, imports } of sources) {
    for (const specifier of imports) {
      if (specifier.startsWith('.') || specifier.startsWith('node:')) continue
      const name = packageOf(specifier)
      if (name === manifest.name) continue
      if (!allows(allowed, name)) problems.push(`${where} imports ${name}, which ${manifest.name} may not`)
      else if (!declared.includes(name)) problems.push(`${where} imports ${name}, which package.json does not declare`)
    }
  }
  return problems
}

function allows(list, name) {
  return list.some((entry) => (entry.endsWith('/*') ? name.startsWith(entry.slice(0, -1)) : entry === name))
}

function folderProblems({ directory, manifest }, sources, { folders, mostFiles }) {
  const rows = folders[manifest.name]
  if (rows === undefined) return [`${manifest.name} has no rows in arrows/folders.mjs: say what its folders may import`]
  const problems = cycleProblems(manifest.name, rows)
  const files = new Map()
  const seen = new Set()
  for (const { path, where, imports } of sources) {
    const folder = folderOf(directory, path)
    files.set(folder, (files.get(folder) ?? 0) + 1)
    const place = placeOf(directory, path, rows)
    seen.add(place)
    const allowed = rows[place]
    if (allowed === undefined) continue
    for (const specifier of imports.filter((name) => name.startsWith('.') && /\.m?ts$/.test(name))) {
      const target = placeOf(directory, resolve(dirname(path), specifier), rows)
      if (target !== place && !allowed.includes(target))
        problems.push(`${where} imports ${specifier}: ${place} may not import ${target} (arrows/folders.mjs)`)
    }
  }
  for (const [folder, count] of files) {
    const where = relative(dirname(dirname(directory)), join(directory, 'src', folder))
    if (folder !== '.' && rows[folder] === undefined)
      problems.push(`${where} has no row in arrows/folders.mjs: say what it may import`)
    if (count > mostFiles) problems.push(`${where} holds ${count} sources, and ${mostFiles} are the most: divide it`)
  }
  for (const place of Object.keys(rows)) {
    if (!seen.has(place)) problems.push(`${manifest.name} has a row in arrows/folders.mjs for ${place}, which is gone`)
  }
  return problems
}

/** The row that a source goes by: its folder's, but for a file of `src` itself that has one of its own. */
function placeOf(directory, path, rows) {
  const folder = folderOf(directory, path)
  return folder === '.' && rows[basename(path)] !== undefined ? basename(path) : folder
}

/** The table itself must not allow a cycle; then the sources, held to it, have none. */
function cycleProblems(name, rows) {
  const done = new Set()
  const problems = []
  const visit = (folder, path) => {
    if (path.includes(folder)) {
      const cycle = [...path.slice(path.indexOf(folder)), folder].join(' → ')
      problems.push(`the rows of ${name} in arrows/folders.mjs allow a cycle: ${cycle}`)
      return
    }
    if (done.has(folder)) return
    for (const next of rows[folder] ?? []) visit(next, [...path, folder])
    done.add(folder)
  }
  for (const folder of Object.keys(rows)) visit(folder, [])
  return problems
}

function sizeProblems(sources, { mostLines }) {
  return sources.flatMap(({ where, text }) => {
    const lines = text.split('\n').length - 1
    return lines > mostLines ? [`${where} has ${lines} lines, and ${mostLines} are the most: divide it`] : []
  })
}

const SEE = /@see +(\S+)/g

/** A pointer of a comment leads to a page of this repository, to an address, or to a name in the code. */
function pointerProblems(root, sources) {
  return sources.flatMap(({ where, text }) =>
    [...text.matchAll(SEE)].flatMap(([, pointer]) => {
      const [path] = pointer.replace(/[.,;:]$/, '').split('#')
      if (path === 'spec') return [`${where} has "@see spec": point to a page of docs/`]
      const isPath = /^[./]|^[\w-]+\//.test(path)
      if (isPath && targetOf(root, path) === undefined)
        return [`${where} points to ${path}, which is not in the repository`]
      return []
    }),
  )
}
