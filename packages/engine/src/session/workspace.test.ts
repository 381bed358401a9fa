import { execFileSync } from 'node:child_process'
import { existsSync, lstatSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openTestWorkspace } from '../../test/session/open-test-workspace.ts'
import { listing, tempDir } from '@nexus/host/testing'
import type { SessionWorkspace } from './workspace.ts'

/** How many this process has open. */
function descriptors(): number {
  return readdirSync('/proc/self/fd').length
}

describe('a path that leaves the session', () => {
  const calls: [string, (workspace: SessionWorkspace, path: string) => Promise<unknown>][] = [
    ['writeFile', (workspace, path) => workspace.writeFile(path, 'x')],
    ['appendFile', (workspace, path) => workspace.appendFile(path, 'x')],
    ['readFile', (workspace, path) => workspace.readFile(path)],
    ['fileExists', (workspace, path) => workspace.fileExists(path)],
    ['deleteFile', (workspace, path) => workspace.deleteFile(path)],
    ['listFiles', (workspace, path) => workspace.listFiles(path)],
  ]

  it.each(calls)('is refused by %s, which touches nothing', async (name, call) => {
    const { workspace, dir, seen } = await openTestWorkspace()
    const outside = tempDir()
    writeFileSync(join(outside, 'secret'), 'secret')
    mkdirSync(join(outside, 'sub'))
    symlinkSync(outside, join(dir, 'files/out'))
    symlinkSync(join(outside, 'secret'), join(dir, 'files/secret'))
    symlinkSync(join(outside, 'new'), join(dir, 'files/new'))
    const before = [...listing(dir), ...listing(outside)]
    const paths = [
      '../x',
      'files/../../x',
      '/etc/x',
      'a\0b',
      'a\\b',
      'C:\\x',
      'files/out/secret',
      'files/out/new/a',
      'files/secret/a',
      'files/new/a',
    ]
    if (name !== 'listFiles') paths.push('', '.', 'files/secret', 'files/new')
    if (name === 'listFiles') paths.push('files/out', 'files/out/sub')
    for (const path of paths) {
      await expect(call(workspace, path)).rejects.toMatchObject({ name: 'PathEscapeError', path })
    }
    expect([...listing(dir), ...listing(outside)]).toEqual(before)
    expect(seen.events).toEqual([])
  })

  it('does not stop at special files: a FIFO is refused at once', async () => {
    const { workspace, dir } = await openTestWorkspace()
    execFileSync('mkfifo', [join(dir, 'files/fifo')])
    for (const call of [
      workspace.readFile('files/fifo'),
      workspace.appendFile('files/fifo', 'x'),
      workspace.writeFile('files/fifo', 'x'),
    ]) {
      await expect(call).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: expect.stringContaining('regular'),
      })
    }
    expect(await workspace.fileExists('files/fifo')).toBe(false)
    expect(lstatSync(join(dir, 'files/fifo')).isFIFO()).toBe(true)
    await expect(workspace.announceWrite(join(dir, 'files/fifo'), false)).resolves.toBeUndefined()
  })

  it.each(['session.lock', 'plugins/p/store.db', 'plugins/p/i/store.db-wal', 'files/.nexus-tmp-x', 'files/x.db-shm'])(
    'keeps its hands off %s, which is the engine’s',
    async (path) => {
      const { workspace, dir } = await openTestWorkspace()
      const before = listing(dir)
      for (const call of [
        workspace.writeFile(path, 'x'),
        workspace.appendFile(path, 'x'),
        workspace.deleteFile(path),
      ]) {
        await expect(call).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', key: path })
      }
      await expect(workspace.readFile(path)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
      expect(listing(dir)).toEqual(before)
    },
  )
})

describe('directories', () => {
  it('are absolute, and a plugin’s own is made when it is asked for', async () => {
    const { workspace, dir } = await openTestWorkspace()
    expect(workspace.dir).toBe(dir)
    expect(workspace.contextDir).toBe(join(dir, 'context'))
    expect(workspace.filesDir).toBe(join(dir, 'files'))
    expect(workspace.blobsDir).toBe(join(dir, 'blobs'))
    expect(workspace.metadataDir).toBe(join(dir, 'metadata'))
    expect(readdirSync(join(dir, 'plugins'))).toEqual([])
    expect(workspace.pluginDir('nexus.agent.sub/researcher')).toBe(join(dir, 'plugins/nexus.agent.sub/researcher'))
    expect(statSync(join(dir, 'plugins/nexus.agent.sub')).mode & 0o777).toBe(0o700 & ~process.umask())
    for (const id of ['..', 'a/../b', '', '/a', 'a//b', 'store.db']) {
      expect(() => workspace.pluginDir(id)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
    }
  })

  it('hold blobs from the first put on, not before', async () => {
    const put: string[] = []
    const { workspace, dir } = await openTestWorkspace({ blobHooks: { onPut: ({ sha256 }) => void put.push(sha256) } })
    const store = await workspace.blobStore()
    expect(await workspace.blobStore()).toBe(store)
    expect(existsSync(workspace.blobsDir)).toBe(false)
    const { sha256 } = await store.put(Buffer.from('blob'), 'text/plain')
    expect(put).toEqual([sha256])
    expect(existsSync(join(dir, 'blobs', sha256.slice(0, 2), `${sha256}.bin`))).toBe(true)
    expect(() => workspace.useBlobHooks({})).toThrow(expect.objectContaining({ code: 'PRECONDITION' }))
  })

  it('connect blobs to what was named before the first use', async () => {
    const put: string[] = []
    const { workspace } = await openTestWorkspace()
    workspace.useBlobHooks({ onPut: ({ sha256 }) => void put.push(sha256) })
    await (await workspace.blobStore()).put(Buffer.from('blob'))
    expect(put).toHaveLength(1)
  })
})

describe('durability by policy', () => {
  it.each(['none', 'turn-boundary', 'every-event'] as const)('%s writes, appends, deletes and syncs', async (fsync) => {
    const { workspace } = await openTestWorkspace({ fsync })
    await workspace.writeFile('new/dir/a', 'x')
    await workspace.appendFile('new/dir/b', 'x')
    await workspace.appendFile('new/dir/b', 'y')
    await workspace.writeFile('new/dir/c', 'x')
    await workspace.deleteFile('new/dir/c')
    await workspace.sync()
    await workspace.sync()
    expect(await workspace.listFiles('new/dir')).toEqual(['a', 'b'])
  })

  it('holds few descriptors however many calls are not waited for', async ({ skip }) => {
    skip(!existsSync('/proc/self/fd'), 'counts descriptors in /proc')
    let most = 0
    const { workspace } = await openTestWorkspace({
      failpoint: () => {
        most = Math.max(most, descriptors())
      },
    })
    const before = descriptors()
    const calls = Array.from({ length: 600 }, (_, n) => [
      workspace.appendFile(`files/${n}.log`, 'x'),
      workspace.writeFile(`files/${n}`, 'x'),
    ])
    await Promise.all(calls.flat())
    expect(most - before).toBeLessThan(200)
    expect(descriptors()).toBe(before)
    expect(await workspace.listFiles('files')).toHaveLength(1200)
  })

  it('waits for what is under way', async () => {
    const { workspace } = await openTestWorkspace()
    const writes = Array.from({ length: 100 }, (_, n) => workspace.writeFile(`files/${n}`, 'x'.repeat(300_000)))
    await workspace.idle()
    expect(await workspace.listFiles('files')).toHaveLength(100)
    await Promise.all(writes)
  })
})

describe('the files of the engine in a session', () => {
  const paths = [
    'metadata/config-snapshot.yaml',
    'metadata/session.json',
    'journal/events.jsonl',
    'journal/cache/tool/x.json',
    'plugins/a/store.db',
    'plugins/a/b/store.db',
    'plugins/a/b/store.db-wal',
    `blobs/ab/${'ab'.repeat(32)}.bin`,
    'blobs',
    'session.lock',
  ]

  it.each(paths)('can be neither written nor appended to nor deleted: %s', async (path) => {
    const { workspace, dir, seen } = await openTestWorkspace()
    const before = listing(dir)
    const refused = { code: 'INVALID_ARGUMENT', key: path, message: expect.stringContaining('belongs to the engine') }
    await expect(workspace.writeFile(path, 'x')).rejects.toMatchObject(refused)
    await expect(workspace.appendFile(path, 'x')).rejects.toMatchObject(refused)
    await expect(workspace.deleteFile(path)).rejects.toMatchObject(refused)
    expect(listing(dir)).toEqual(before)
    expect(seen.events).toEqual([])
  })

  it('can not be reached through a link inside the session either', async () => {
    const { workspace, dir } = await openTestWorkspace()
    mkdirSync(join(dir, 'plugins/a/b'), { recursive: true })
    writeFileSync(join(dir, 'plugins/a/b/store.db'), 'rows')
    symlinkSync('../metadata', join(dir, 'files/meta'))
    symlinkSync('../plugins/a/b/store.db', join(dir, 'files/db'))
    const refused = { code: 'INVALID_ARGUMENT', message: expect.stringContaining('belongs to the engine') }
    await expect(workspace.writeFile('files/meta/config-snapshot.yaml', 'x')).rejects.toMatchObject(refused)
    await expect(workspace.appendFile('files/db', 'x')).rejects.toMatchObject(refused)
    await expect(workspace.readFile('files/db')).rejects.toMatchObject(refused)
    await expect(workspace.deleteFile('files/meta/session.json')).rejects.toMatchObject(refused)
    expect(existsSync(join(dir, 'metadata/session.json'))).toBe(true)
  })

  it('leave the conversation, turn times and the rest of the tree to others', async () => {
    const { workspace } = await openTestWorkspace()
    for (const path of [
      'context/conversation.jsonl',
      'metadata/timing.jsonl',
      'plugins/a/cache.json',
      'files/store.db',
    ]) {
      await workspace.writeFile(path, 'x')
      await workspace.deleteFile(path)
    }
  })
})

describe('data that is neither text nor bytes', () => {
  it.each([undefined, null, 7, true, {}, ['x'], new ArrayBuffer(2), Promise.resolve('x')])(
    'is refused before anything is touched: %s',
    async (data) => {
      const { workspace, dir } = await openTestWorkspace()
      await workspace.writeFile('files/x', 'kept')
      const before = listing(dir)
      const refused = { code: 'INVALID_ARGUMENT', key: 'files/x' }
      await expect(workspace.writeFile('files/x', data as string)).rejects.toMatchObject(refused)
      await expect(workspace.appendFile('files/x', data as string)).rejects.toMatchObject(refused)
      await expect(workspace.writeFile(data as string, 'x')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
      expect(listing(dir)).toEqual(before)
    },
  )

  it('does not mean a view of other elements: its bytes are written', async () => {
    const { workspace } = await openTestWorkspace()
    await workspace.writeFile('files/x', new Uint16Array([0x4241, 0x4443]) as unknown as Uint8Array)
    expect(await workspace.readFile('files/x')).toEqual(Buffer.from('ABCD'))
  })
})
