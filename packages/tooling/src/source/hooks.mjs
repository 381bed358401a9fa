// Loads a TypeScript file as one module, with all that it imports of this repository in it. Hundreds of files loaded one by one
// cost a process two seconds of CPU; a bundle that is kept until a file of it changes costs a tenth of that.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { keptBundle } from './kept-bundle.mjs'

const BUILD = fileURLToPath(new URL('build-bundle.mjs', import.meta.url))
const MOST_BYTES = 64 * 1024 * 1024

/** A hook of node:module. @see https://nodejs.org/api/module.html#loadurl-context-nextload */
export async function load(url, context, nextLoad) {
  if (!/^file:.*\.m?ts$/.test(url)) return await nextLoad(url, context)
  const path = fileURLToPath(url)
  return { format: 'module', source: keptBundle(path) ?? built(path), shortCircuit: true }
}

/** In a process of its own, since what a bundler leaves running here decides when this process ends. */
function built(path) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [BUILD, path], { maxBuffer: MOST_BYTES })
  if (status !== 0) throw new Error(`${path} could not be bundled: ${stderr.toString()}`)
  return stdout
}
