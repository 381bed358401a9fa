// Checks what would be published: each public package is packed, publint and the types check read the tarball, and the
// metadata rules of this repository hold (side effects, engines, files, one README example).
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { repositoryRoot, workspacePackages } from './workspace.mjs'

const bin = (name) => join(repositoryRoot, 'node_modules', '.bin', name)
const problems = []

function run(command, args, cwd) {
  const result = spawnSync(command, args, { cwd, encoding: 'utf8' })
  return { ok: result.status === 0, output: `${result.stdout}${result.stderr}` }
}

function checkMetadata(directory, manifest) {
  const where = relative(repositoryRoot, directory)
  const expect = (condition, message) => condition || problems.push(`${where}: ${message}`)
  const isModule = where.startsWith('modules/')
  expect(
    manifest.sideEffects === isModule,
    `"sideEffects" must be ${isModule}: a module registers itself when imported, nothing else does`,
  )
  expect(manifest.type === 'module', '"type" must be "module"')
  expect(manifest.engines?.node === '>=20.19', '"engines.node" must be ">=20.19"')
  for (const [subpath, target] of Object.entries(manifest.publishConfig?.exports ?? manifest.exports)) {
    if (typeof target === 'string') continue
    expect(
      Object.keys(target).at(-1) === 'default',
      `exports["${subpath}"] must end in "default", so that require() finds it`,
    )
    const short = shortNames(join(directory, target.types))
    expect(short.length === 0, `exports["${subpath}"]: its types export ${short.join(', ')}, which no source is called`)
  }
  const readme = join(directory, 'README.md')
  expect(
    existsSync(readme) && readFileSync(readme, 'utf8').includes('```ts'),
    'README.md with a runnable ```ts example is missing',
  )
}

/** Names that only a bundler gives: the types of a chunk stand where those of an entry should. */
function shortNames(typesPath) {
  const lists = readFileSync(typesPath, 'utf8').matchAll(/export \{([^}]*)\}/g)
  const names = [...lists].flatMap(([, list]) => list.split(',').map((item) => item.trim().split(' ').at(-1)))
  return names.filter((name) => /^[a-z]{1,2}$/.test(name))
}

const scratch = mkdtempSync(join(tmpdir(), 'nexus-pack-'))
try {
  for (const { directory, manifest } of workspacePackages()) {
    if (manifest.private) continue
    checkMetadata(directory, manifest)
    const packed = run(bin('pnpm'), ['pack', '--pack-destination', scratch], directory)
    if (!packed.ok) {
      problems.push(`${manifest.name}: pnpm pack failed\n${packed.output}`)
      continue
    }
    const tarball = readdirSync(scratch).find((name) =>
      name.startsWith(`${manifest.name.slice(1).replace('/', '-')}-${manifest.version}`),
    )
    const lint = run(bin('publint'), ['run', join(scratch, tarball), '--strict'], directory)
    if (!lint.ok) problems.push(`${manifest.name}: publint\n${lint.output}`)
    const types = run(bin('attw'), [join(scratch, tarball), '--profile', 'esm-only', '--no-emoji'], directory)
    if (!types.ok) problems.push(`${manifest.name}: types as published\n${types.output}`)
  }
} finally {
  rmSync(scratch, { recursive: true, force: true })
}

if (problems.length > 0) {
  process.stderr.write(`${problems.join('\n\n')}\n`)
  process.exit(1)
}
process.stdout.write('Published packages are sound.\n')
