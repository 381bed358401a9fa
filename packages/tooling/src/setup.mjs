// Makes a clean clone ready: the package manager and every dependency, then nothing again until the lock file changes.
// Plain JavaScript without dependencies, because it runs before anything is installed.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..')
const OLDEST_NODE = [20, 19]

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

const [major, minor] = process.versions.node.split('.').map(Number)
if (major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1])) {
  fail(`Nexus needs Node.js ${OLDEST_NODE.join('.')} or newer; this is ${process.versions.node}.`)
}

// Written last of all, so equal text means a finished install of this very lock file.
const STAMP = 'node_modules/.nexus-setup'
const lockSha256 = createHash('sha256').update(contentOf('pnpm-lock.yaml')).digest('hex')
if (contentOf(STAMP) !== lockSha256) {
  const { packageManager } = JSON.parse(contentOf('package.json'))
  process.stdout.write(
    `Installing dependencies with ${packageManager} (about a minute the first time: two native addons)\n`,
  )
  const install = spawnSync('npx', ['--yes', packageManager, 'install', '--frozen-lockfile'], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  if (install.status !== 0) {
    process.stderr.write(`${install.stdout}${install.stderr}\n`)
    fail(
      'The install failed. better-sqlite3 and zstd-napi are compiled where no prebuilt binary can be had: ' +
        'a C++ toolchain (Debian: apt-get install g++ make python3) is needed then.',
    )
  }
  writeFileSync(join(root, STAMP), lockSha256)
}
