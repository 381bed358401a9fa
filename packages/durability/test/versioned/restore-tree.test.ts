import { randomBytes } from 'node:crypto'
import { chmodSync, lstatSync, mkdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Slices } from '@nexus/host'
import { describe, expect, it } from 'vitest'
import { fetchFile } from '../../src/versioned/store/read/fetch-file.ts'
import { loadTree } from '../../src/versioned/store/read/load-tree.ts'
import { pushFile } from '../../src/versioned/store/write/push-file.ts'
import { SessionFixture } from './session-fixture.ts'
import { treeListing } from './tree-listing.ts'

async function manyKinds(): Promise<SessionFixture> {
  const session = new SessionFixture()
  for (let file = 0; file < 50; file++) session.write(`files/small/${file}`, `content of ${file}`)
  session.write('files/random', randomBytes(2_500_000))
  session.write('files/twice', Buffer.alloc(300_000, 'again '))
  session.write('files/again', Buffer.alloc(300_000, 'again '))
  session.write('files/none', '')
  session.write('files/script', '#!/bin/sh')
  chmodSync(join(session.dir, 'files/script'), 0o755)
  mkdirSync(join(session.dir, 'files/closed'), { mode: 0o555 })
  symlinkSync('/etc/passwd', join(session.dir, 'files/link'))
  utimesSync(join(session.dir, 'files/twice'), 1e9, 1e9)
  await session.commit()
  return session
}

describe('a restored tree', () => {
  it('is what was committed, whatever is in the packs, the commit and the one before', async () => {
    const session = await manyKinds()
    session.write('files/small/7', 'changed')
    await session.commit()
    const { dir, restored } = await session.restore()
    expect(treeListing(dir)).toEqual(treeListing(session.dir))
    expect(restored.objects).toBe(55)
  })

  it('takes what another tree still holds, and asks for nothing but what differs there', async () => {
    const session = await manyKinds()
    const warm = await session.restore()
    session.write('files/small/7', 'changed')
    await session.commit()
    // A warm tree that somebody wrote to: the same size, another content.
    const path = join(warm.dir, 'files/small/8')
    writeFileSync(path, 'x'.repeat(lstatSync(path).size))
    const before = session.backend.faults.calls.length
    const { dir } = await session.restore({ reuseDir: warm.dir })
    expect(treeListing(dir)).toEqual(treeListing(session.dir))
    const packs = session.backend.faults.calls.slice(before).filter(({ key }) => key?.includes('/packs/'))
    expect(packs).toHaveLength(1)
  })

  it('costs few requests, since what lies side by side is asked for at once', async () => {
    const session = new SessionFixture()
    for (let file = 0; file < 100; file++) session.write(`files/${file}`, `content of ${file}`)
    await session.commit()
    const before = session.backend.faults.calls.length
    await session.restore()
    expect(session.backend.faults.calls.slice(before)).toHaveLength(1)
  })
})

describe('a blob', () => {
  it('that is large is stored before the commit that names it, and only then', async () => {
    const session = new SessionFixture()
    session.write('blobs/ab/small', Buffer.alloc(1000, 's'))
    const content = randomBytes(700_000)
    session.write('files/blob', content)
    const onPack = session.context.onPack
    const options = { generation: 1, slices: new Slices(), onPack }
    await pushFile(session.objects, join(session.dir, 'blobs/ab/small'), options)
    expect(session.kept).toEqual([])
    await pushFile(session.objects, join(session.dir, 'files/blob'), options)
    expect(session.kept).toHaveLength(1)
    const { payloadBytes, containers } = await session.commit()
    expect(payloadBytes).toBeLessThan(10_000)
    expect(containers.packs.size).toBe(1)
    expect((await session.contents())['files/blob']).toBe(content.toString('latin1'))
  })

  it('comes back alone', async () => {
    const session = new SessionFixture()
    const content = randomBytes(300_000)
    session.write('files/blob', content)
    await session.commit()
    const whole = await session.objects.readWhole(1)
    if (whole === undefined) throw new Error('no commit')
    const loaded = await loadTree(session.objects, whole, { slices: new Slices(), concurrency: 2 })
    const path = join(session.root, 'fetched')
    expect(await fetchFile(loaded, 'files/blob', path, { concurrency: 2 })).toBe(true)
    expect(session.onDisk('../fetched')).toBe(content.toString('latin1'))
    expect(await fetchFile(loaded, 'files/other', path, { concurrency: 2 })).toBe(false)
  })
})
