import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { engineTempName } from '@nexus/host'
import { tempDir } from '@nexus/host/testing'
import { describe, expect, it, onTestFinished } from 'vitest'
import { sweepTemps } from './temp-files.ts'

const DAY_MS = 24 * 60 * 60 * 1000
// A pid that no process of this machine can have.
const deadName = (): string =>
  engineTempName()
    .replace(`-${process.pid.toString(36)}-`, '-zzzzz-')
    .replace(/-[0-9a-f]{12}/, '-0123456789ab')

function put(dir: string, path: string, ageMs = 0): string {
  mkdirSync(join(dir, path, '..'), { recursive: true })
  writeFileSync(join(dir, path), 'x')
  const time = (Date.now() - ageMs) / 1000
  utimesSync(join(dir, path), time, time)
  return path
}

describe('the sweep of temporary files', () => {
  it('removes those of dead writers and very old ones, at any depth, and nothing else', async () => {
    const dir = tempDir()
    const gone = [
      put(dir, deadName()),
      put(dir, `files/a/b/${deadName()}`),
      put(dir, 'files/.nexus-tmp-0123456789abcdef', 9 * DAY_MS),
      put(dir, 'blobs/ab/.nexus-tmp-999999-1-0123456789abcdef', 9 * DAY_MS),
    ]
    const kept = [
      put(dir, 'files/mine'),
      put(dir, `files/${engineTempName()}`),
      put(dir, 'files/.nexus-tmp-0123456789'),
    ]
    expect((await sweepTemps(dir, { nowMs: Date.now() })).toSorted()).toEqual(gone.toSorted())
    for (const path of kept) expect(existsSync(join(dir, path))).toBe(true)
  })

  it('removes whatever lies in a tree that is ours, directories as well, but for the claims of its lock', async () => {
    const dir = tempDir()
    put(dir, 'files/.nexus-tmp-0123456789')
    put(dir, 'journal/.nexus-tmp-d/below/x')
    put(dir, '.nexus-tmp-lock-0123456789')
    put(dir, 'files/mine')
    const removed = await sweepTemps(dir, { isOurs: true, nowMs: Date.now() })
    expect(removed.toSorted()).toEqual(['files/.nexus-tmp-0123456789', 'journal/.nexus-tmp-d'])
    expect(readdirSync(dir).toSorted()).toEqual(['.nexus-tmp-lock-0123456789', 'files', 'journal'])
  })

  it('removes nothing behind a link', async () => {
    const dir = tempDir()
    const outside = mkdtempSync(join(tmpdir(), 'nexus-outside-'))
    onTestFinished(() => rmSync(outside, { recursive: true }))
    put(outside, '.nexus-tmp-0123456789', 9 * DAY_MS)
    symlinkSync(outside, join(dir, 'files'))
    symlinkSync(outside, join(dir, '.nexus-tmp-link'))
    await sweepTemps(dir, { isOurs: true, nowMs: Date.now() + 2 * DAY_MS })
    expect(readdirSync(outside)).toEqual(['.nexus-tmp-0123456789'])
    expect(readdirSync(dir)).toEqual(['files'])
  })
})
