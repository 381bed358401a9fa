import { chmodSync, mkdirSync, rmSync, symlinkSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { SessionFixture } from './session-fixture.ts'

const OLD = new Date('2020-01-02T03:04:05.000Z')

describe('a commit', () => {
  it('holds the files, links and directories of the tree', async () => {
    const session = new SessionFixture()
    session.write('files/a.txt', 'hello')
    session.write('files/none', '')
    session.write('files/large.bin', Buffer.alloc(200_000, 'large '))
    session.stage('plugins/notes/store.db', Buffer.alloc(40_000, 'db'))
    mkdirSync(join(session.dir, 'files/empty/inner'), { recursive: true, mode: 0o700 })
    symlinkSync('../elsewhere', join(session.dir, 'files/link'))
    chmodSync(join(session.dir, 'files/a.txt'), 0o755)
    utimesSync(join(session.dir, 'files/a.txt'), OLD, OLD)
    await session.commit()
    const read = await session.read()
    expect(read.header).toMatchObject({ kind: 'turn', totals: { files: 4, dirs: 1, links: 1, bytes: 240_005 } })
    expect(await session.contents()).toEqual({
      'files/a.txt': 'hello',
      'files/none': '',
      'files/large.bin': session.onDisk('files/large.bin'),
      'plugins/notes/store.db': Buffer.alloc(40_000, 'db').toString('latin1'),
    })
    expect(read.files.get('files/a.txt')).toMatchObject({ mode: 0o755, mtimeNs: BigInt(OLD.getTime()) * 1_000_000n })
    expect(read.links).toEqual(new Map([['files/link', '../elsewhere']]))
    expect(read.dirs).toEqual(new Map([['files/empty/inner', 0o700]]))
  })

  it('is one object, and refers to what the one before holds', async () => {
    const session = new SessionFixture()
    for (let file = 0; file < 400; file++) session.write(`files/${file}`, `content of ${file}`)
    const first = await session.commit()
    session.write('files/7', 'changed')
    const second = await session.commit()
    expect([...session.backend.objects.keys()]).toHaveLength(2)
    expect(second.bytes.length).toBeLessThan(first.bytes.length * 0.8)
    expect((await session.contents())['files/7']).toBe('changed')
    expect((await session.contents())['files/8']).toBe('content of 8')
  })

  it('drops what is gone, and takes a path that became something else', async () => {
    const session = new SessionFixture()
    session.write('files/gone', 'x')
    session.write('files/turns', 'into a directory')
    await session.commit()
    rmSync(join(session.dir, 'files/gone'))
    rmSync(join(session.dir, 'files/turns'))
    session.write('files/turns/inner', 'y')
    symlinkSync('nowhere', join(session.dir, 'files/gone'))
    await session.commit()
    expect(await session.contents()).toEqual({ 'files/turns/inner': 'y' })
    expect((await session.read()).links).toEqual(new Map([['files/gone', 'nowhere']]))
  })

  it('stores more than a mebibyte in packs, before it exists', async () => {
    const session = new SessionFixture()
    const content = Buffer.alloc(3 * 1024 * 1024)
    for (let at = 0; at < content.length; at += 4) content.writeUInt32LE(Math.imul(at, 2654435761) >>> 0, at)
    session.write('files/large', content)
    const prepared = await session.prepare()
    const keys = [...session.backend.objects.keys()]
    expect(keys).toEqual([expect.stringMatching(/^sessions\/s\.v\/packs\/00000000000000000001-[0-9a-f]{16}-0$/)])
    await session.land(prepared)
    expect((await session.contents())['files/large']).toBe(content.toString('latin1'))
    expect(session.kept).toEqual([])
  })

  it('uses packs again that an attempt before it uploaded', async () => {
    const session = new SessionFixture()
    const content = Buffer.alloc(3 * 1024 * 1024)
    for (let at = 0; at < content.length; at += 4) content.writeUInt32LE(Math.imul(at, 2654435761) >>> 0, at)
    session.write('files/large', content)
    await session.prepare()
    await session.commit()
    expect([...session.backend.objects.keys()]).toHaveLength(2)
    expect((await session.contents())['files/large']).toBe(content.toString('latin1'))
    session.write('files/small', 'x')
    await session.commit()
    expect((await session.contents())['files/large']).toBe(content.toString('latin1'))
  })

  it('of a claim holds the tree of its parent, and stores nothing of it again', async () => {
    const session = new SessionFixture()
    session.write('files/a', 'a')
    await session.commit()
    session.write('files/a', 'not committed')
    const claim = await session.claim()
    expect(claim.payloadBytes).toBe(0)
    expect(await session.contents()).toEqual({ 'files/a': 'a' })
    await session.commit()
    expect(await session.contents()).toEqual({ 'files/a': 'not committed' })
  })

  it('that never landed leaves the tree of its parent as it was', async () => {
    const session = new SessionFixture()
    session.write('files/a', 'a')
    await session.commit()
    session.write('files/a', 'b')
    session.write('files/b', 'b')
    await session.prepare()
    rmSync(join(session.dir, 'files/b'))
    session.write('files/a', 'c')
    await session.commit()
    expect(await session.contents()).toEqual({ 'files/a': 'c' })
  })

  it('gives databases chunks of their pages, and takes no nonsense for a page size', async () => {
    const session = new SessionFixture()
    const withPages = (size: number): Buffer => {
      const bytes = Buffer.alloc(200_000, 'rows')
      bytes.write('SQLite format 3\0', 0, 'latin1')
      bytes.writeUInt16BE(size === 65_536 ? 1 : size, 16)
      return bytes
    }
    session.stage('plugins/small/store.db', withPages(4096))
    session.stage('plugins/large/store.db', withPages(65_536))
    session.stage('plugins/odd/store.db', withPages(40_001))
    session.stage('plugins/other/store.db', Buffer.alloc(200_000, 0x9c))
    await session.commit()
    const { files } = await session.reload()
    const sizes = Object.fromEntries(Object.entries(files).map(([path, file]) => [path.split('/')[1], file.chunkSize]))
    expect(sizes).toEqual({ small: 16_384, large: 65_536, odd: 16_384, other: 16_384 })
  })

  it('follows one that another process loads', async () => {
    const session = new SessionFixture()
    for (let file = 0; file < 100; file++) session.write(`files/${file}`, `content of ${file}`)
    session.write('files/huge', Buffer.alloc(70 * 65_536, 'h'))
    await session.commit()
    await session.reload()
    session.write('files/7', 'changed')
    const next = await session.commit()
    expect(next.payloadBytes).toBeLessThan(100)
    expect(Object.keys(await session.contents())).toHaveLength(101)
    expect((await session.contents())['files/7']).toBe('changed')
  })
})
