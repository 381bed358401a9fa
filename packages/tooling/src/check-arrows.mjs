// Holds the dependency arrows between packages: what package.json declares and what the sources import must both be
// allowed by the table below. A new package must be given a row.
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import ts from 'typescript'
import { repositoryRoot, workspacePackages } from './workspace.mjs'

const SEAM = '@nexus/objectstore'

/** What each package's published code may import besides Node: workspace packages and libraries. */
const ALLOWED = {
  '@nexus/errors': [],
  '@nexus/host': ['@nexus/errors'],
  '@nexus/objectstore': ['@nexus/errors', '@nexus/host'],
  '@nexus/objectstore-contract': [SEAM],
  '@nexus/journal': ['@nexus/errors', '@nexus/host', 'zstd-napi'],
  '@nexus/blobs': ['@nexus/errors', '@nexus/host'],
  // Its handles are of better-sqlite3's type, so whoever compiles against them needs the types, too.
  '@nexus/storage': ['@nexus/errors', '@nexus/host', 'better-sqlite3', '@types/better-sqlite3'],
  '@nexus/durability': ['@nexus/errors', '@nexus/host', SEAM, '@nexus/journal', '@nexus/blobs', '@nexus/storage'],
  '@nexus/engine': [
    '@nexus/errors',
    '@nexus/host',
    '@nexus/durability',
    SEAM,
    '@nexus/journal',
    '@nexus/blobs',
    '@nexus/storage',
    'yaml',
    'valibot',
    'pino',
  ],
  '@nexus/resume-contract': ['@nexus/engine', SEAM],
  '@nexus/cli': ['@nexus/engine'],
  '@nexus/objectstore-memory-test': [SEAM, '@nexus/errors', '@nexus/host'],
  '@nexus/objectstore-fs': [SEAM, '@nexus/errors', '@nexus/host'],
  '@nexus/objectstore-s3': [
    SEAM,
    '@nexus/errors',
    '@nexus/host',
    '@aws-sdk/*',
    '@smithy/*',
    'http-proxy-agent',
    'https-proxy-agent',
  ],
  '@nexus/objectstore-gcs': [SEAM, '@nexus/errors', '@nexus/host', '@google-cloud/storage', 'google-auth-library'],
}

/** Private packages publish nothing, so they may use what they like. */
const FREE = new Set([
  '@nexus/tooling',
  '@nexus/bench',
  '@nexus/proof',
  '@nexus/objectstore-seamcheck',
  '@nexus/objectstore-emulators',
])

function allows(list, name) {
  return list.some((entry) => (entry.endsWith('/*') ? name.startsWith(entry.slice(0, -1)) : entry === name))
}

function packageOf(specifier) {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

function sourcesOf(directory) {
  return readdirSync(join(directory, 'src'), { recursive: true })
    .filter((name) => /\.m?ts$/.test(name) && !name.endsWith('.test.ts') && !name.startsWith('testing/'))
    .map((name) => join(directory, 'src', name))
}

const problems = []
for (const { directory, manifest } of workspacePackages()) {
  if (FREE.has(manifest.name)) continue
  const allowed = ALLOWED[manifest.name]
  if (allowed === undefined) {
    problems.push(`${manifest.name} has no row in packages/tooling/src/check-arrows.mjs: say what it may depend on`)
    continue
  }
  const declared = Object.keys({
    ...manifest.dependencies,
    ...manifest.peerDependencies,
    ...manifest.optionalDependencies,
  })
  for (const name of declared) {
    if (!allows(allowed, name))
      problems.push(`${manifest.name} declares a dependency on ${name}, which it may not have`)
  }
  for (const file of sourcesOf(directory)) {
    const where = relative(repositoryRoot, file)
    for (const { fileName } of ts.preProcessFile(readFileSync(file, 'utf8'), true, true).importedFiles) {
      if (fileName.startsWith('.') || fileName.startsWith('node:')) continue
      const name = packageOf(fileName)
      if (name === manifest.name) continue
      if (!allows(allowed, name)) problems.push(`${where} imports ${name}, which ${manifest.name} may not`)
      else if (!declared.includes(name)) problems.push(`${where} imports ${name}, which package.json does not declare`)
    }
  }
}

if (problems.length > 0) {
  process.stderr.write(`${problems.join('\n')}\n`)
  process.exit(1)
}
process.stdout.write('Dependency arrows hold.\n')
