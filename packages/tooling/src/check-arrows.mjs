// Holds the arrows of this repository: between packages, between the folders of a package, and from comments to pages.
import process from 'node:process'
import { FOLDERS, MOST_FILES, MOST_LINES } from './arrows/folders.mjs'
import { FREE, PACKAGES } from './arrows/packages.mjs'
import { arrowProblems } from './arrows/problems.mjs'
import { repositoryRoot } from './workspace.mjs'

const problems = arrowProblems(repositoryRoot, {
  packages: PACKAGES,
  free: FREE,
  folders: FOLDERS,
  mostFiles: MOST_FILES,
  mostLines: MOST_LINES,
})
if (problems.length > 0) {
  process.stderr.write(`${problems.join('\n')}\n`)
  process.exit(1)
}
process.stdout.write('Arrows hold.\n')
