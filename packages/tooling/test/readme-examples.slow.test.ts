import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const repositoryRoot = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..')
// Below this package, so that every workspace package resolves from the example as it would from an embedder's program.
const examplesDir = join(repositoryRoot, 'packages', 'tooling', '.examples')

// Plain `--import tsx` does not reach the worker threads that storage and backends start.
const registerSource = new URL('../src/source/register.mjs', import.meta.url).href

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

const EXAMPLE = /^```ts\n([\s\S]*?)^```$/gm

function examplesIn(path: string): string[] {
  return [...readFileSync(path, 'utf8').matchAll(EXAMPLE)].map((match) => match[1] as string)
}

function guides(): { guide: string; number: number; example: string }[] {
  const directory = join(repositoryRoot, 'docs', 'guides')
  return readdirSync(directory).flatMap((guide) =>
    examplesIn(join(directory, guide)).map((example, index) => ({ guide, number: index + 1, example })),
  )
}

/** Runs an example as a program of its own, in a directory of its own. Rejects when it fails or doesn't end by itself. */
async function runExample(example: string): Promise<void> {
  mkdirSync(examplesDir, { recursive: true })
  const directory = mkdtempSync(join(examplesDir, 'run-'))
  try {
    const file = join(directory, 'example.ts')
    writeFileSync(file, example)
    await promisify(execFile)(process.execPath, ['--import', registerSource, '--conditions', '@nexus/source', file], {
      cwd: directory,
      timeout: 45_000,
      env: { ...process.env, HOME: directory },
    })
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

describe('README examples', () => {
  it.concurrent.each(publicReadmes())('the example of $name runs and ends by itself', async ({ path }) => {
    const [example] = examplesIn(path)
    expect(example, `${path} has no ts example`).toBeDefined()
    await runExample(example ?? '')
  })
})

describe('guides', () => {
  it.concurrent.each(guides())('example $number of $guide runs and ends by itself', async ({ example }) => {
    await runExample(example)
  })
})
