import { fork, spawnSync, type ChildProcess } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const CHILD = fileURLToPath(new URL('./run-child.ts', import.meta.url))

let root: string
let child: ChildProcess

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nexus-run-'))
})

afterEach(() => {
  child.kill('SIGKILL')
  rmSync(root, { recursive: true, force: true })
})

function serve(hangs: boolean, order: { bootMs?: number; bucket?: string } = {}): void {
  child = fork(CHILD, [JSON.stringify({ root, hangs, ...order })], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
}

async function message(text: string): Promise<void> {
  await new Promise<void>((resolve) => {
    const onMessage = (received: unknown): void => {
      if (received !== text) return
      child.off('message', onMessage)
      resolve()
    }
    child.on('message', onMessage)
  })
}

async function ended(): Promise<number | null> {
  return await new Promise((resolve) => child.once('exit', resolve))
}

describe('run()', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)('ends the session properly on %s', async (signal) => {
    serve(false)
    await message('ready')
    const exit = ended()
    child.kill(signal)
    expect(await exit).toBe(0)
    expect(readFileSync(join(root, 'sessions/served/metadata/session.json'), 'utf8')).toContain('"ended"')
    expect(existsSync(join(root, 'sessions/served/session.lock'))).toBe(false)
  })

  it('ends in order on a signal that comes while it boots: neither lock nor owner marker stays', async () => {
    const bucket = join(root, 'bucket')
    mkdirSync(bucket)
    serve(false, { bootMs: 300, bucket })
    await message('booting')
    const exit = ended()
    child.kill('SIGTERM')
    expect(await exit).toBe(0)
    expect(existsSync(join(root, 'sessions/served/session.lock'))).toBe(false)
    expect(readFileSync(join(root, 'sessions/served/metadata/session.json'), 'utf8')).toContain('"ended"')
    expect(existsSync(join(bucket, 'sessions/served.owner/owner.json'))).toBe(false)
    expect(existsSync(join(bucket, 'sessions/served.manifest/manifest.json'))).toBe(true)
  })

  it.for(['booting', 'ready'])(
    'ends in order as the first process of a container, told to while it is %s',
    async (when, { skip }) => {
      const asFirst = ['--pid', '--fork', '--mount-proc']
      skip(
        spawnSync('unshare', [...asFirst, 'true']).status !== 0,
        'needs unshare and the right to make a pid namespace',
      )
      child = fork(CHILD, [JSON.stringify({ root, hangs: false, bootMs: 300 })], {
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
        execPath: 'unshare',
        execArgv: [...asFirst, process.execPath, ...process.execArgv],
      })
      await message(when)
      const exit = ended()
      // What a runtime of containers does: a signal without a handler is not delivered to the first process.
      process.kill(Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')), 'SIGTERM')
      expect(await exit).toBe(0)
      expect(existsSync(join(root, 'sessions/served/session.lock'))).toBe(false)
      expect(readFileSync(join(root, 'sessions/served/metadata/session.json'), 'utf8')).toContain('"ended"')
    },
  )

  it('exits at once on a second signal while the stop hangs', async () => {
    serve(true)
    await message('ready')
    const exit = ended()
    const stopping = message('stopping')
    child.kill('SIGTERM')
    await stopping
    child.kill('SIGINT')
    expect(await exit).toBe(130)
  })
})
