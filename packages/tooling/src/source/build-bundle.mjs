// node build-bundle.mjs FILE: bundles a TypeScript file with all that it imports of this repository, keeps that, and prints it.
import { readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import { keepBundle, stampOf } from './kept-bundle.mjs'

const path = process.argv[2]
const inputs = {}

/** Packages of the repository go into the bundle; others are imported from where the importing file finds them. */
const ownSources = {
  name: 'own-sources',
  setup({ onResolve, onLoad, resolve }) {
    onResolve({ filter: /^[^./]/ }, async (asked) => {
      const { path: name, importer, resolveDir, kind, pluginData, with: attributes } = asked
      if (pluginData === 'looked up' || kind === 'entry-point') return undefined
      if (name.startsWith('node:') || name.startsWith('@nexus/')) return undefined
      const found = await resolve(name, { importer, resolveDir, kind, with: attributes, pluginData: 'looked up' })
      // What isn't there is an error when it is imported, and not before.
      if (found.errors.length > 0 || !found.path.startsWith('/')) return { path: name, external: true }
      return { path: pathToFileURL(found.path).href, external: true }
    })
    onLoad({ filter: /\.(m?ts|m?js|json)$/ }, async ({ path: file }) => {
      // Before it is read: of a change in between, the next process knows.
      inputs[file] = stampOf(file)
      if (file.endsWith('.json')) return undefined
      const text = await readFile(file, 'utf8')
      const contents = text
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(file).href))
        .replaceAll('import.meta.dirname', JSON.stringify(dirname(file)))
        .replaceAll('import.meta.filename', JSON.stringify(file))
      return { contents, loader: file.endsWith('ts') ? 'ts' : 'js' }
    })
  },
}

const { outputFiles } = await build({
  entryPoints: [path],
  outfile: 'bundle.js',
  bundle: true,
  write: false,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  conditions: ['@nexus/source'],
  sourcemap: 'external',
  plugins: [ownSources],
})
const [map, code] = ['.map', '.js'].map((ending) => outputFiles.find((file) => file.path.endsWith(ending)).contents)
process.stdout.write(keepBundle(path, { inputs, code, map }))
