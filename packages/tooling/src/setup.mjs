// Makes a clean clone ready: the package manager, every dependency, and with --build the build. Each is done when it is
// needed and not again. Plain JavaScript without dependencies, because it runs before anything is installed.
//
//   node setup.mjs                         install
//   node setup.mjs --build                 install, build every package
//   node setup.mjs --build NAME [NAME...]  install, build these packages and what they depend on
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..')
const OLDEST_NODE = [20, 19]
const TOOLCHAIN_HINT =
  'better-sqlite3 and zstd-napi are compiled where no prebuilt binary can be had: a C++ toolchain is needed then ' +
  '(Debian: apt-get install g++ make python3).'
// Written last of all, so equal text means a finished install of this very lock file.
const STAMP = 'node_modules/.nexus-setup'

function fail(message) {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}

function contentOf(path) {
  try {
    return readFileSync(join(root, path), 'utf8')
  } catch (error) {
    if (error.code === 'ENOENT') return undefined
    throw error
  }
}

/** Runs a tool quietly; its output is shown only when it fails. */
function run(command, args, hint) {
  const result = spawnSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, TURBO_TELEMETRY_DISABLED: '1' },
    maxBuffer: 2 ** 28,
  })
  if (result.status === 0) return
  process.stderr.write(`${result.error?.message ?? ''}${result.stdout ?? ''}${result.stderr ?? ''}\n`)
  fail(hint)
}

function requireNode() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])) return
  fail(`Nexus needs Node.js ${OLDEST_NODE.join('.')} or newer; this is ${process.versions.node}.`)
}

function install() {
  const lockSha256 = createHash('sha256').update(contentOf('pnpm-lock.yaml')).digest('hex')
  if (contentOf(STAMP) === lockSha256) return
  const { packageManager } = JSON.parse(contentOf('package.json'))
  process.stdout.write('Installing dependencies (a minute or two the first time: two native addons)\n')
  run('npx', ['--yes', packageManager, 'install', '--frozen-lockfile'], `The install failed. ${TOOLCHAIN_HINT}`)
  writeFileSync(join(root, STAMP), lockSha256)
}

function build(packages) {
  process.stdout.write('Building\n')
  const filters = packages.map((name) => `--filter=${name}...`)
  run(
    join(root, 'node_modules', '.bin', 'turbo'),
    ['run', 'build', '--output-logs=errors-only', ...filters],
    'The build failed.',
  )
}

const [flag, ...packages] = process.argv.slice(2)
requireNode()
install()
if (flag === '--build') build(packages)
