import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openTestWorkspace } from './open-test-workspace.ts'
import { listing, tempDir } from '@nexus/host/testing'

// Swaps a directory, or a file, for a link out of the session and back, as fast as it can. What the other side makes in the
// gap is moved away.
const SWAPPER = `
const { renameSync } = require('node:fs')
const [real, link, aside] = process.argv.slice(1)
const move = (from, to) => {
  try { renameSync(from, to) } catch { try { renameSync(to, to + '.' + process.hrtime.bigint()) } catch {} }
}
process.send('ready')
for (;;) {
  move(real, aside)
  move(link, real)
  move(real, link)
  move(aside, real)
}`

async function swap(real: string, link: string): Promise<void> {
  const child = spawn(process.execPath, ['-e', SWAPPER, real, link, `${real}.aside`], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  onTestFinished(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  })
  await once(child, 'message')
}

describe('a path whose components are swapped for links while it is used', () => {
  it('never leads a write, an append or a deletion out of the session by a directory', async () => {
    const { workspace, dir } = await openTestWorkspace()
    const outside = tempDir()
    for (const name of ['a', 'b', 'c']) writeFileSync(join(outside, name), 'untouched')
    mkdirSync(join(dir, 'files/d'))
    symlinkSync(outside, join(dir, 'link'))
    const before = listing(outside)
    await swap(join(dir, 'files/d'), join(dir, 'link'))
    let refused = 0
    let done = 0
    const count = (call: Promise<unknown>): Promise<void> =>
      call.then(
        () => void (done += 1),
        () => void (refused += 1),
      )
    for (let n = 0; n < 500; n++) {
      await count(workspace.writeFile('files/d/a', 'mine'))
      await count(workspace.appendFile('files/d/b', 'mine'))
      await count(workspace.deleteFile('files/d/c'))
      await count(workspace.writeFile(`files/d/new${n}/x`, 'mine'))
      await count(workspace.readFile('files/d/a').then((bytes) => expect(bytes.toString()).toBe('mine')))
    }
    expect(listing(outside)).toEqual(before)
    // Both happened, or the race was none.
    expect(done).toBeGreaterThan(10)
    expect(refused).toBeGreaterThan(10)
  })

  it('never leads an append or a read out of the session by the file itself', async () => {
    const { workspace, dir } = await openTestWorkspace()
    const secret = join(tempDir(), 'secret')
    writeFileSync(secret, 'secret')
    writeFileSync(join(dir, 'files/f'), '')
    symlinkSync(secret, join(dir, 'link'))
    await swap(join(dir, 'files/f'), join(dir, 'link'))
    const read: string[] = []
    let refused = 0
    const refuse = (): void => void (refused += 1)
    for (let n = 0; n < 1500; n++) {
      await workspace.appendFile('files/f', 'x').catch(refuse)
      await workspace.readFile('files/f').then((bytes) => read.push(bytes.toString()), refuse)
    }
    expect(readFileSync(secret, 'utf8')).toBe('secret')
    expect(read.filter((content) => content.includes('secret'))).toEqual([])
    expect(read.length).toBeGreaterThan(10)
    expect(refused).toBeGreaterThan(10)
  })
})
