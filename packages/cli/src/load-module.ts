import { createRequire } from 'node:module'
import { join } from 'node:path'
import process from 'node:process'
import { pathToFileURL } from 'node:url'

/** Loads a module, such as a backend that registers itself: a package or a path, seen from the working directory. */
export async function loadModule(name: string): Promise<void> {
  const { resolve } = createRequire(join(process.cwd(), 'package.json'))
  await import(pathToFileURL(resolve(name)).href)
}
