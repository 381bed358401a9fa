import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openTestWorkspace } from '../../../test/session/open-test-workspace.ts'

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
