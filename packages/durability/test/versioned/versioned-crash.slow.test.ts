import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { VERSIONED_FAILPOINTS } from '../../src/versioned/failpoints.ts'
import { openCrashRun } from '../crash-run.ts'
import { newDir } from '../memory-store.ts'

const versioned = { layoutName: 'versioned' } as const

/** Runs two turns and the end in a process of its own; resolves with the turns that it was told are stored. */
async function runChild(disk: string, bucket: string, failpoint: string, pass: number): Promise<string[]> {
  const script = fileURLToPath(new URL('../crash-child.ts', import.meta.url))
  const args = [...process.execArgv, script, 'turns', disk, bucket, failpoint, String(pass), 'versioned']
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const [, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
  expect(signal).toBe('SIGKILL')
  return [...output.matchAll(/stored (\w+)/g)].map((match) => match[1] ?? '')
}

describe.each(VERSIONED_FAILPOINTS)('a kill at %s in the versioned layout', (failpoint) => {
  it('loses no acknowledged turn, mixes nothing, and leaves the tree the live one', async () => {
    const base = newDir('versioned-crash')
    const [bucket, a, empty] = ['bucket', 'a', 'empty'].map((name) => join(base, name)) as [string, string, string]
    const first = await openCrashRun({ disk: a, bucket, ...versioned })
    await first.turn('t1')
    await first.abandon()
    await first.storage.closeAll()
    await first.storage.dispose()
    // The claim of the boot passes the record as well: the second time is in a turn.
    const acknowledged = await runChild(a, bucket, failpoint, 2)
    const fresh = await openCrashRun({ disk: empty, bucket, ...versioned })
    const turns = fresh.turns()
    expect(turns.slice(0, 1 + acknowledged.length)).toEqual(['t1', ...acknowledged])
    expect(turns).toEqual(['t1', 't8', 't9'].slice(0, turns.length))
    await fresh.durability.abandon()
    await fresh.storage.dispose()
    // The empty host only claimed: the killed one's tree holds all that is committed, and may hold more.
    const warm = await openCrashRun({ disk: a, bucket, ...versioned })
    expect(warm.resolution).toMatchObject({ tree: 'local' })
    await warm.turn('after')
    expect(warm.durability.status().lastSnapshot).toMatchObject({ ok: true })
    await warm.stop()
  })
})
