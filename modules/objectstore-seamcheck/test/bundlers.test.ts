import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { nodeResolve } from '@rollup/plugin-node-resolve'
import { build as esbuild } from 'esbuild'
import { rollup } from 'rollup'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { installStranger, publicPackages, run } from './stranger.ts'

describe('a bundle of nothing but the import of a backend', () => {
  let outside: string

  beforeAll(async () => {
    outside = await installStranger()
  }, 300_000)

  afterAll(() => {
    rmSync(outside, { recursive: true, force: true })
  })

  const modules = publicPackages().flatMap(({ manifest: { name } }) =>
    name.startsWith('@nexus/objectstore-') && name !== '@nexus/objectstore-contract' ? [name] : [],
  )

  /** The registered backends of a program that holds only the bundle. */
  const registeredBy = async (bundle: string): Promise<string> => {
    const script = `await import(${JSON.stringify(pathToFileURL(bundle).href)})
      process.stdout.write([...globalThis[Symbol.for('nexus.objectstore.registry/1')].keys()].join())`
    return (await run(process.execPath, ['--input-type=module', '-e', script], { cwd: outside })).stdout
  }

  // Vendor SDKs stay what they are in a bundle too: loaded when the bucket is opened.
  const external = ['@aws-sdk/*', '@smithy/*', '@google-cloud/*', 'google-auth-library']

  it.for(modules)('keeps the registration of %s under esbuild', async (name) => {
    const entry = join(outside, 'app.mjs')
    writeFileSync(entry, `import ${JSON.stringify(name)}\n`)
    const outfile = join(outside, 'esbuild.mjs')
    await esbuild({
      entryPoints: [entry],
      outfile,
      bundle: true,
      treeShaking: true,
      minify: true,
      format: 'esm',
      platform: 'node',
      external,
      logLevel: 'silent',
    })
    expect(await registeredBy(outfile)).toBe(name.slice('@nexus/objectstore-'.length))
  })

  it.for(modules)('keeps the registration of %s under rollup', async (name) => {
    const entry = join(outside, 'app.mjs')
    writeFileSync(entry, `import ${JSON.stringify(name)}\n`)
    const bundle = await rollup({
      input: entry,
      treeshake: true,
      plugins: [nodeResolve()],
      // Other people's packages, some of which are CommonJS, are not what this is about.
      external: (id) => !/^(?:[./]|@nexus\/)/.test(id),
      onwarn: () => undefined,
    })
    const dir = join(outside, `rollup-${name.slice('@nexus/'.length)}`)
    await bundle.write({ dir, format: 'esm', entryFileNames: 'app.mjs', chunkFileNames: '[name].mjs' })
    await bundle.close()
    expect(await registeredBy(join(dir, 'app.mjs'))).toBe(name.slice('@nexus/objectstore-'.length))
  })
})
