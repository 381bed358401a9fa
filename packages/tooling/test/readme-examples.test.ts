import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const repositoryRoot = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..')
// Below this package, so that every workspace package resolves from the example as it would from an embedder's program.
const examplesDir = join(repositoryRoot, 'packages', 'tooling', '.examples')

interface Readme {
  name: string
  path: string
}

function publicReadmes(): Readme[] {
  const readmes = ['packages', 'modules'].flatMap((group) =>
    readdirSync(join(repositoryRoot, group)).flatMap((directory) => {
      const manifestPath = join(repositoryRoot, group, directory, 'package.json')
      if (!existsSync(manifestPath)) return []
      const manifest = JSON.parse(readFileSync(manifestPath, 'utf8')) as { name: string; private?: boolean }
      return manifest.private === true ? [] : [{ name: manifest.name, path: join(dirname(manifestPath), 'README.md') }]
    }),
  )
  return [{ name: 'the repository', path: join(repositoryRoot, 'README.md') }, ...readmes]
}

function firstExample(markdown: string): string | undefined {
  return /^```ts\n([\s\S]*?)^```$/m.exec(markdown)?.[1]
}

describe('README examples', () => {
  it.concurrent.each(publicReadmes())('the example of $name runs and ends by itself', async ({ path }) => {
    const example = firstExample(readFileSync(path, 'utf8'))
    expect(example, `${path} has no ts example`).toBeDefined()
    mkdirSync(examplesDir, { recursive: true })
    const directory = mkdtempSync(join(examplesDir, 'run-'))
    try {
      const file = join(directory, 'example.ts')
      writeFileSync(file, example ?? '')
      const run = promisify(execFile)
      await run(process.execPath, ['--import', 'tsx', '--conditions', '@nexus/source', file], {
        cwd: directory,
        timeout: 45_000,
        env: { ...process.env, HOME: directory },
      })
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  })
})
