import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const repositoryRoot = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..')

/** Every package of a workspace: its absolute directory and parsed package.json. */
export function workspacePackages(root = repositoryRoot) {
  return ['packages', 'modules'].flatMap((group) =>
    readdirSync(join(root, group))
      .map((name) => join(root, group, name))
      .filter((directory) => existsSync(join(directory, 'package.json')))
      .map((directory) => ({ directory, manifest: JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) })),
  )
}
