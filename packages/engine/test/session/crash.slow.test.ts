import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { APPEND_FAILPOINTS } from '../../src/session/files/append-record.ts'
import { acquireSessionLock, ATOMIC_WRITE_FAILPOINTS } from '@nexus/host'
import { CREATE_TREE_FAILPOINTS } from '../../src/session/create-tree.ts'
import { openWorkspace } from '../../src/session/workspace.ts'
import { tempDir } from '@nexus/host/testing'

const FAILPOINTS = [...CREATE_TREE_FAILPOINTS, ...ATOMIC_WRITE_FAILPOINTS, ...APPEND_FAILPOINTS]

interface Ended {
  acknowledged: string[]
  signal: NodeJS.Signals | null
  log: string
}

/** Runs the child until it kills itself, or is killed after so many acknowledgements. */
async function run(root: string, failpoint: string, passes: number, killAfter = Infinity): Promise<Ended> {
  const script = fileURLToPath(new URL('./crash-child.ts', import.meta.url))
  const child = spawn(process.execPath, [...process.execArgv, script, root, failpoint, String(passes)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString()
    if (output.split('\n').length > killAfter) child.kill('SIGKILL')
  })
  const log = text(child.stderr)
  const [, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
  return { acknowledged: output.split('\n').slice(0, -1), signal, log: await log }
}

/** Reopens the session and holds it against what was acknowledged. */
async function check(root: string, acknowledged: string[]): Promise<void> {
  const dir = join(root, 's1')
  expect(readdirSync(root).filter((name) => name !== 's1' && !name.startsWith('.hydrating-s1-'))).toEqual([])
  if (!acknowledged.includes('created')) {
    // Whole or not at all.
    if (!existsSync(dir)) return
  }
  const lock = await acquireSessionLock(dir, { transport: 'test' })
  const workspace = await openWorkspace({ id: 's1', dir })
  expect(workspace.meta()).toMatchObject({ id: 's1', status: 'active' })
  const last = (what: string): number =>
    Math.max(0, ...acknowledged.filter((line) => line.startsWith(what)).map((line) => Number(line.split(' ')[1])))

  const log = (await workspace.fileExists('files/log')) ? (await workspace.readFile('files/log')).toString() : ''
  const records = log.split('\n')
  // Every record is whole, the last one ends with its newline, and none that was acknowledged is missing.
  expect(records.pop()).toBe('')
  for (const [index, record] of records.entries()) expect(record).toBe(`${index + 1}:${'x'.repeat((index + 1) * 100)}`)
  expect([last('append'), last('append') + 1]).toContain(records.length)

  const state = (await workspace.fileExists('files/state'))
    ? (await workspace.readFile('files/state')).toString()
    : '0:'
  const n = Number(state.split(':')[0])
  expect(state).toBe(`${n}:${'y'.repeat(n * 20_000)}`)
  expect([last('write'), last('write') + 1]).toContain(n)
  const shown = ['log', 'state'].filter((name) => existsSync(join(dir, 'files', name)))
  expect(await workspace.listFiles('files')).toEqual(shown)
  lock.release()
}

describe('a process that is killed', () => {
  it.each(FAILPOINTS)('at %s leaves whole files and everything that was acknowledged', async (failpoint) => {
    // The first atomic write makes the tree; dying in that one, and in the middle of the work.
    const passes = failpoint.startsWith('atomic-write:') ? [1, 17] : [1]
    for (const pass of passes) {
      const root = tempDir()
      const { acknowledged, signal, log } = await run(root, failpoint, pass)
      expect({ signal, log }).toEqual({ signal: 'SIGKILL', log: '' })
      await check(root, acknowledged)
    }
  })

  it.each([3, 25, 61])('after %d acknowledgements leaves them all', async (killAfter) => {
    const root = tempDir()
    const { acknowledged, signal } = await run(root, 'none', 0, killAfter)
    expect(signal).toBe('SIGKILL')
    expect(acknowledged.length).toBeGreaterThanOrEqual(killAfter)
    await check(root, acknowledged)
  })

  it('at a failpoint that is not listed does not happen: the sources name no other', () => {
    const sources = ['../../src/session/', '../../../host/src/files/'].map((dir) =>
      fileURLToPath(new URL(dir, import.meta.url)),
    )
    const named = sources
      .flatMap((dir) => readdirSync(dir, { recursive: true, encoding: 'utf8' }).map((name) => join(dir, name)))
      .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))
      .flatMap((path) => [...readFileSync(path, 'utf8').matchAll(/failpoint\('([^']+)'\)/g)])
      .map((match) => String(match[1]))
    expect(named.toSorted()).toEqual(FAILPOINTS.toSorted())
  })
})
