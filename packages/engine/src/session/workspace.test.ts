import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openTestWorkspace } from '../../test/session/open-test-workspace.ts'
import { listing, tempDir } from '../../test/session/temp-dir.ts'
import { silentLogger } from '../logger.ts'
import type { SessionWorkspace } from './workspace.ts'

/** How many this process has open. */
function descriptors(): number {
  return readdirSync('/proc/self/fd').length
}

describe('writeFile', () => {
  it('writes strings and bytes, makes directories, and reads back', async () => {
    const { workspace } = await openTestWorkspace()
    await workspace.writeFile('files/a/b/c.txt', 'grüße')
    await workspace.writeFile('files/bytes', new Uint8Array([0, 255, 1]))
    expect((await workspace.readFile('files/a/b/c.txt')).toString()).toBe('grüße')
    expect([...(await workspace.readFile('files/bytes'))]).toEqual([0, 255, 1])
  })

  it('announces created, then updated, as a whole file', async () => {
    const { workspace, seen } = await openTestWorkspace()
    await workspace.writeFile('files/a', 'one')
    await workspace.writeFile('./files//a', 'three')
    await workspace.writeFile('files/a', '')
    expect(seen.payloads[0]).toEqual({
      type: 'session.file.created',
      _schema_version: 2,
      session_id: 's1',
      path: 'files/a',
      size: 3,
      offset: 0,
      bytes_added: 3,
    })
    expect(seen.events.slice(1)).toEqual([
      { type: 'updated', path: 'files/a', size: 5, offset: 0, bytes_added: 5 },
      { type: 'updated', path: 'files/a', size: 0, offset: 0, bytes_added: 0 },
    ])
  })

  it('never shows a reader half a file, and leaves no temp file', async () => {
    const { workspace, dir } = await openTestWorkspace()
    const contents = ['a'.repeat(600_000), 'b'.repeat(400_000)]
    await workspace.writeFile('files/a', contents[0] as string)
    const writes = Array.from({ length: 30 }, (_, n) => workspace.writeFile('files/a', contents[n % 2] as string))
    let reads = 0
    const progress = { done: false }
    const written = Promise.all(writes).finally(() => {
      progress.done = true
    })
    while (!progress.done) {
      expect(contents).toContain(readFileSync(join(dir, 'files/a'), 'utf8'))
      reads += 1
      await new Promise((resolve) => setImmediate(resolve))
    }
    await written
    expect(reads).toBeGreaterThan(1)
    expect(readdirSync(join(dir, 'files'))).toEqual(['a'])
  })

  it('takes the last of several writes that were not waited for', async () => {
    const { workspace, seen } = await openTestWorkspace()
    const writes = Array.from({ length: 20 }, (_, n) => workspace.writeFile('files/a', 'x'.repeat(n)))
    await Promise.all(writes)
    expect((await workspace.readFile('files/a')).length).toBe(19)
    expect(seen.events.map(({ size }) => size)).toEqual(Array.from({ length: 20 }, (_, n) => n))
  })

  it('keeps the executable bit of the file it replaces', async () => {
    const { workspace, dir } = await openTestWorkspace()
    await workspace.writeFile('files/run.sh', 'one')
    chmodSync(join(dir, 'files/run.sh'), 0o755)
    await workspace.writeFile('files/run.sh', 'two')
    expect(statSync(join(dir, 'files/run.sh')).mode & 0o777).toBe(0o755)
  })

  it('keeps a legal file name of 255 bytes', async () => {
    const { workspace } = await openTestWorkspace()
    const name = `${'n'.repeat(250)}.json`
    await workspace.writeFile(`files/${name}`, 'x')
    await workspace.appendFile(`files/${name}`, 'y')
    expect(await workspace.listFiles('files')).toEqual([name])
    expect((await workspace.readFile(`files/${name}`)).toString()).toBe('xy')
    await expect(workspace.writeFile(`files/${name}x`, 'x')).rejects.toMatchObject({ code: 'LOCAL_IO' })
  })

  it('takes names that only look dangerous', async () => {
    const { workspace } = await openTestWorkspace()
    const names = [
      'a..b',
      '..c',
      '...',
      'C:x',
      '-rf',
      '#?%2B &+',
      'a\nb',
      '__proto__',
      'é',
      'e\u0301',
      'A.txt',
      'a.txt',
    ]
    for (const name of names) await workspace.writeFile(`files/${name}`, name)
    expect(await workspace.listFiles('files')).toEqual(names.toSorted())
    for (const name of names) expect((await workspace.readFile(`files/${name}`)).toString()).toBe(name)
  })
})

describe('appendFile', () => {
  it('announces the exact offset of each append', async () => {
    const { workspace, seen } = await openTestWorkspace()
    for (const text of ['first\n', 'second\n', '']) await workspace.appendFile('context/log.jsonl', text)
    expect(seen.events).toEqual([
      { type: 'created', path: 'context/log.jsonl', size: 6, offset: 0, bytes_added: 6 },
      { type: 'updated', path: 'context/log.jsonl', size: 13, offset: 6, bytes_added: 7 },
      { type: 'updated', path: 'context/log.jsonl', size: 13, offset: 13, bytes_added: 0 },
    ])
  })

  it('says updated for the first append to an empty file that was there', async () => {
    const { workspace, dir, seen } = await openTestWorkspace()
    writeFileSync(join(dir, 'files/a'), '')
    await workspace.appendFile('files/a', 'abc')
    expect(seen.events).toEqual([{ type: 'updated', path: 'files/a', size: 3, offset: 0, bytes_added: 3 }])
  })

  it('keeps records of concurrent appends whole and in the order of the calls, with offsets that add up', async () => {
    const { workspace, seen } = await openTestWorkspace()
    const records = Array.from({ length: 200 }, (_, n) => `${n}:${'x'.repeat((n * 7919) % 5000)}\n`)
    await Promise.all(records.map((record) => workspace.appendFile('files/log', record)))
    expect((await workspace.readFile('files/log')).toString()).toBe(records.join(''))
    let offset = 0
    for (const [n, event] of seen.events.entries()) {
      expect(event).toMatchObject({ offset, bytes_added: (records[n] as string).length })
      offset += (records[n] as string).length
    }
  })

  it('never stores half of a surrogate pair: what a later request reads is well-formed', async () => {
    const { workspace } = await openTestWorkspace()
    await workspace.appendFile('context/conversation.jsonl', `${'😀'.slice(0, 1)} and \udc00\n`)
    await workspace.writeFile('context/note', 'cut in an emoji: \ud83d')
    const decoder = new TextDecoder('utf-8', { fatal: true })
    expect(decoder.decode(await workspace.readFile('context/conversation.jsonl'))).toBe('\uFFFD and \uFFFD\n')
    expect(decoder.decode(await workspace.readFile('context/note'))).toBe('cut in an emoji: \uFFFD')
  })

  it('keeps large records whole, too', async () => {
    const { workspace } = await openTestWorkspace()
    const records = ['a', 'b', 'c'].map((letter) => letter.repeat(1_000_000))
    await Promise.all(records.map((record) => workspace.appendFile('files/log', record)))
    expect((await workspace.readFile('files/log')).toString()).toBe(records.join(''))
  })

  it('says offset 0, treat it as rewritten, when another process appended in between', async () => {
    let path = ''
    let foreign = ''
    const { workspace, dir, seen } = await openTestWorkspace({
      failpoint: (name) => {
        if (name === 'append:measured' && foreign !== '') appendFileSync(path, foreign)
      },
    })
    path = join(dir, 'files/a')
    await workspace.appendFile('files/a', 'one')
    foreign = '-theirs-'
    await workspace.appendFile('files/a', 'two')
    foreign = ''
    await workspace.appendFile('files/a', 'three')
    expect(seen.events.slice(1)).toEqual([
      { type: 'updated', path: 'files/a', size: 14, offset: 0, bytes_added: 14 },
      { type: 'updated', path: 'files/a', size: 19, offset: 14, bytes_added: 5 },
    ])
    expect(readFileSync(path, 'utf8')).toBe('one-theirs-twothree')
  })

  it('appends to what a write put there, in the order of the calls', async () => {
    const { workspace } = await openTestWorkspace()
    await Promise.all([
      workspace.writeFile('files/a', 'new'),
      workspace.appendFile('files/a', '+1'),
      workspace.writeFile('files/a', 'newer'),
      workspace.appendFile('files/a', '+2'),
    ])
    expect((await workspace.readFile('files/a')).toString()).toBe('newer+2')
  })

  it('puts two names of one file in one row', async () => {
    const { workspace, dir, seen } = await openTestWorkspace()
    await workspace.writeFile('files/a', '')
    symlinkSync('a', join(dir, 'files/b'))
    const appends = Array.from({ length: 40 }, (_, n) => workspace.appendFile(n % 2 ? 'files/a' : 'files/b', `${n},`))
    await Promise.all(appends)
    expect((await workspace.readFile('files/b')).toString()).toBe(
      Array.from({ length: 40 }, (_, n) => `${n},`).join(''),
    )
    expect(new Set(seen.events.map(({ path }) => path))).toEqual(new Set(['files/a']))
  })
})

describe('deleteFile', () => {
  it('removes and announces', async () => {
    const { workspace, dir, seen } = await openTestWorkspace()
    await workspace.writeFile('files/a', 'x')
    await workspace.deleteFile('files/a')
    expect(seen.payloads[1]).toEqual({
      type: 'session.file.deleted',
      _schema_version: 1,
      session_id: 's1',
      path: 'files/a',
    })
    expect(existsSync(join(dir, 'files/a'))).toBe(false)
    await expect(workspace.deleteFile('files/a')).rejects.toMatchObject({ code: 'NOT_FOUND', key: 'files/a' })
    await expect(workspace.deleteFile('none/a')).rejects.toMatchObject({ code: 'NOT_FOUND', key: 'none/a' })
    await expect(workspace.deleteFile('files')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(seen.events).toHaveLength(2)
  })

  it('removes a link that stays inside as a link', async () => {
    const { workspace, dir, seen } = await openTestWorkspace()
    await workspace.writeFile('files/a', 'x')
    symlinkSync('a', join(dir, 'files/b'))
    symlinkSync('gone', join(dir, 'files/dangling'))
    await workspace.deleteFile('files/b')
    await workspace.deleteFile('files/dangling')
    expect(readdirSync(join(dir, 'files'))).toEqual(['a'])
    expect(seen.events.at(-1)).toEqual({ type: 'deleted', path: 'files/dangling' })
  })
})

describe('reading and looking', () => {
  it('lists the files of a directory, sorted, without directories and temp files', async () => {
    const { workspace, dir } = await openTestWorkspace()
    for (const name of ['b', 'a', 'c']) await workspace.writeFile(`files/${name}`, name)
    mkdirSync(join(dir, 'files/sub'))
    writeFileSync(join(dir, 'files/.nexus-tmp-0123456789abcdef'), '')
    symlinkSync('a', join(dir, 'files/link'))
    symlinkSync('/etc/hostname', join(dir, 'files/out'))
    symlinkSync('none', join(dir, 'files/dangling'))
    expect(await workspace.listFiles('files')).toEqual(['a', 'b', 'c', 'link'])
    expect(await workspace.listFiles('files/none')).toEqual([])
    expect(await workspace.listFiles('files/a')).toEqual([])
    expect(await workspace.listFiles('')).toEqual([])
    expect(await workspace.listFiles('metadata/')).toEqual(['session.json'])
  })

  it('leaves out a name that is not UTF-8, and keeps the one that reads like it', async () => {
    const { workspace, dir } = await openTestWorkspace()
    writeFileSync(Buffer.concat([Buffer.from(`${dir}/files/`), Buffer.from([0xff])]), 'bytes')
    expect(await workspace.listFiles('files')).toEqual([])
    await workspace.writeFile('files/\uFFFD', 'literal')
    expect((await workspace.readFile('files/\uFFFD')).toString()).toBe('literal')
  })

  it('tells files from everything else', async () => {
    const { workspace } = await openTestWorkspace()
    await workspace.writeFile('files/a', 'x')
    expect(await workspace.fileExists('files/a')).toBe(true)
    for (const path of ['files/b', 'files', 'none/a', 'files/a/b']) expect(await workspace.fileExists(path)).toBe(false)
    await expect(workspace.readFile('files/b')).rejects.toMatchObject({ code: 'NOT_FOUND', key: 'files/b' })
    await expect(workspace.readFile('files')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })
})

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

describe('announceWrite and announceAppend', () => {
  it('announce exactly what the helpers would', async () => {
    const { workspace, dir, seen } = await openTestWorkspace()
    const path = join(dir, 'files/raw')
    writeFileSync(path, 'abc')
    await workspace.announceWrite(path, false)
    await workspace.announceWrite(path, true)
    appendFileSync(path, 'de')
    await workspace.announceAppend(path, 2)
    expect(seen.events).toEqual([
      { type: 'created', path: 'files/raw', size: 3, offset: 0, bytes_added: 3 },
      { type: 'updated', path: 'files/raw', size: 3, offset: 0, bytes_added: 3 },
      { type: 'updated', path: 'files/raw', size: 5, offset: 3, bytes_added: 2 },
    ])
  })

  it('derive created from an append that nothing lies before', async () => {
    const { workspace, dir, seen } = await openTestWorkspace()
    const path = join(dir, 'files/raw')
    appendFileSync(path, 'abc')
    await workspace.announceAppend(path, 3)
    expect(seen.events).toEqual([{ type: 'created', path: 'files/raw', size: 3, offset: 0, bytes_added: 3 }])
  })

  it.each([4, -1, 1.5, Number.NaN])('say rewritten for %d bytes appended to a file of 3', async (bytesAdded) => {
    const { workspace, dir, seen } = await openTestWorkspace()
    const path = join(dir, 'files/raw')
    writeFileSync(path, 'abc')
    await workspace.announceAppend(path, bytesAdded)
    expect(seen.events).toEqual([{ type: 'updated', path: 'files/raw', size: 3, offset: 0, bytes_added: 3 }])
  })

  it('are silent for what is outside, never crosses, or is no file', async () => {
    const { workspace, dir, seen } = await openTestWorkspace()
    const outside = tempDir()
    mkdirSync(join(dir, 'plugins/p'), { recursive: true })
    symlinkSync(outside, join(dir, 'files/out'))
    const paths = [
      'session.lock',
      'plugins/p/store.db',
      'plugins/p/store.db-wal',
      'plugins/p/store.db-shm',
      'files/own.sqlite',
      'files/.nexus-tmp-0123456789abcdef',
      'files/out/a',
    ].map((path) => join(dir, path))
    paths.push(join(outside, 'b'), `${dir}-twin`)
    for (const path of paths.slice(0, -1)) writeFileSync(path, 'x')
    paths.push(dir, join(dir, 'files'), join(dir, 'files/none'), 'files/relative', '', join(dir, '../..'))
    for (const path of paths) {
      await workspace.announceWrite(path, false)
      await workspace.announceAppend(path, 1)
    }
    expect(seen.events).toEqual([])
  })

  it('are silent without a bus, and speak once there is one', async () => {
    const { workspace, dir, seen } = await openTestWorkspace({ bus: undefined as never })
    await workspace.writeFile('files/a', 'x')
    await workspace.announceWrite(join(dir, 'files/a'), false)
    workspace.attachBus(seen)
    await workspace.announceWrite(join(dir, 'files/a'), true)
    expect(seen.events).toHaveLength(1)
  })
})

describe('events', () => {
  it('are handled before the helper resolves, and the handler may write the same path', async () => {
    const { workspace, seen } = await openTestWorkspace()
    seen.handler = async ({ path, type }) => {
      if (type === 'created') await workspace.appendFile(path, '!')
    }
    await workspace.writeFile('files/a', 'x')
    expect((await workspace.readFile('files/a')).toString()).toBe('x!')
  })

  it('never make a write fail: it has happened', async () => {
    const lost: object[] = []
    const { workspace, seen } = await openTestWorkspace({
      logger: { ...silentLogger, warn: (fields) => void lost.push(fields) },
    })
    seen.handler = () => Promise.reject(new Error('no bus any more'))
    await workspace.writeFile('files/a', 'x')
    await workspace.deleteFile('files/a')
    expect(lost).toMatchObject([{ path: 'files/a', type: 'session.file.created' }, { type: 'session.file.deleted' }])
  })

  it('go out through the given emitter, so that they can be children of an event', async () => {
    const { workspace, seen } = await openTestWorkspace()
    const through: string[] = []
    const via = { emit: async (type: string) => void through.push(type) }
    await workspace.writeFile('files/a', 'x', { via })
    await workspace.appendFile('files/a', 'x', { via })
    await workspace.deleteFile('files/a', { via })
    await workspace.saveMeta(workspace.meta(), { via })
    expect(through).toEqual(['created', 'updated', 'deleted', 'updated'].map((what) => `session.file.${what}`))
    expect(seen.events).toEqual([])
  })
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
