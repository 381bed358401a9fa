import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Engine } from '@nexus/engine'
import { describe, expect, it } from 'vitest'
import { call } from '../../test/call.ts'
import { collect, Lab, until } from '../../test/lab.ts'
import { shellTool } from './shell.ts'

async function withShell(block: object = {}): Promise<Engine> {
  return await new Lab().engine({ plugins: [shellTool()], blocks: { 'nexus.tool.shell': { enabled: true, ...block } } })
}

const run = (engine: Engine, command: string, turnId?: string): Promise<object> =>
  call(engine, 'run_command', { command }, turnId)

function isAlive(pid: number): boolean {
  try {
    // A killed process that nobody has waited for yet is none that runs.
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

/** Starts a command in the background of a turn, and gives its pid. */
async function inBackground(engine: Engine, turnId: string): Promise<number> {
  await engine.bus.emit('agent.turn.start', { turn_id: turnId, session_id: engine.sessionId })
  expect(await run(engine, 'sleep 600 & echo $! > pid', turnId)).toMatchObject({ output: '[exit code 0]' })
  return Number(readFileSync(join(engine.session.filesDir, 'pid'), 'utf8'))
}

describe('the shell', () => {
  it('is off by default', async () => {
    const engine = await new Lab().engine({ plugins: [shellTool()] })
    expect(await run(engine, 'touch here')).toEqual({ error: 'no result' })
    expect(existsSync(join(engine.session.filesDir, 'here'))).toBe(false)
  })

  it('runs in the directory of the files, and gives output and exit code', async () => {
    const engine = await withShell()
    expect(await run(engine, 'pwd; echo oops >&2; exit 3')).toEqual({
      output: `${engine.session.filesDir}\noops\n[exit code 3]`,
    })
  })

  it('sees no variable that is not named', async () => {
    process.env['SHELL_TEST_SECRET'] = 'secret'
    process.env['SHELL_TEST_OPEN'] = 'open'
    const engine = await withShell({ pass_env: ['SHELL_TEST_OPEN'] })
    expect(await run(engine, 'echo "$SHELL_TEST_SECRET-$SHELL_TEST_OPEN"')).toEqual({ output: '-open\n[exit code 0]' })
  })

  it('gives no more output than the limit, and does not hang on what comes after it', async () => {
    const engine = await withShell({ max_output_bytes: 10 })
    expect(await run(engine, 'head -c 300000 /dev/zero | tr "\\0" x')).toEqual({
      output: 'xxxxxxxxxx\n[cut: 299990 more bytes]\n[exit code 0]',
    })
  })

  it('ends a command and its children that take too long', async () => {
    const engine = await withShell({ timeout_ms: 150 })
    expect(await run(engine, 'sleep 600 & echo $! > pid; wait')).toEqual({ output: '[ended after 150 ms]' })
    const pid = Number(readFileSync(join(engine.session.filesDir, 'pid'), 'utf8'))
    await until(() => !isAlive(pid))
  })

  it('ends what a command left in the background when its turn ends', async () => {
    const engine = await withShell()
    const pid = await inBackground(engine, 't1')
    expect(isAlive(pid)).toBe(true)
    await engine.bus.emit('agent.turn.end', { turn_id: 't1', session_id: engine.sessionId })
    await until(() => !isAlive(pid))
  })

  it('ends everything when the engine stops', async () => {
    const engine = await withShell()
    const pid = await inBackground(engine, 't1')
    await engine.stop()
    await until(() => !isAlive(pid))
  })

  it('stops a command of a turn that is cancelled', async () => {
    const engine = await withShell()
    const turn = { turn_id: 't1', session_id: engine.sessionId }
    await engine.bus.emit('agent.turn.start', turn)
    const results = collect(engine, 'tool.result')
    const running = run(engine, 'echo > started; sleep 600', 't1')
    await until(() => existsSync(join(engine.session.filesDir, 'started')))
    await engine.bus.emit('agent.turn.cancel', { ...turn, reason: 'enough' })
    await running
    expect(results).toMatchObject([{ error: 'turn t1 was cancelled: enough' }])
  })
})
