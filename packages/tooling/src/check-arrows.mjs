// Holds the arrows of this repository: between packages, between the folders of a package, and from comments to pages.
import { relative } from 'node:path'
import process from 'node:process'
import { FOLDERS, MOST_FILES, MOST_LINES } from './arrows/folders.mjs'
import { FREE, PACKAGES } from './arrows/packages.mjs'
import { arrowProblems } from './arrows/problems.mjs'
import { repositoryRoot, workspacePackages } from './workspace.mjs'

const problems = arrowProblems(repositoryRoot, {
  packages: PACKAGES,
  free: FREE,
  folders: FOLDERS,
  mostFiles: MOST_FILES,
  mostLines: MOST_LINES,
})
// Packages that have no rows yet are held to the arrows between packages alone, and no folder to its size.
const waiting = workspacePackages().filter(({ manifest }) => FOLDERS[manifest.name] === undefined)
const held = problems.filter((problem) => {
  if (problem.includes('are the most: divide it')) return false
  const of = waiting.find(({ directory, manifest }) =>
    [manifest.name, relative(repositoryRoot, directory)].some((start) => problem.startsWith(start)),
  )
  return of === undefined || !/ has no rows |"@see spec"|points to/.test(problem)
})
if (held.length > 0) {
  process.stderr.write(`${held.join('\n')}\n`)
  process.exit(1)
}
process.stdout.write('Arrows hold.\n')
