import nodeFs, { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { tempDir } from '../testing/index.ts'
import { ATOMIC_WRITE_FAILPOINTS, atomicWriteFile, type AtomicWriteFs } from './atomic-write.ts'
import { engineTempName, isEngineTempName } from './temp-name.ts'

const short = (path: unknown): string => (isEngineTempName(basename(String(path))) ? 'temp' : basename(String(path)))

/** `node:fs` that logs its calls by file name and fails those that `fail` picks. */
function recordingFs(fail: (call: string) => string | undefined = () => undefined): {
  fs: AtomicWriteFs
  log: string[]
} {
  const log: string[] = []
  const names = new Map<number, string>()
  const note = (call: string): void => {
    log.push(call)
    const code = fail(call)
    if (code !== undefined) throw Object.assign(new Error(`${code}: made up`), { code })
  }
  const later = (call: string, fd: number, done: (error: Error | null) => void, run: () => void): void => {
    try {
      note(`${call} ${names.get(fd)}`)
    } catch (error) {
      done(error as Error)
      return
    }
    run()
  }
  const fs = {
    ...nodeFs,
    openSync: (path: string, flags: string, mode?: number): number => {
      note(`open ${short(path)}`)
      const fd = nodeFs.openSync(path, flags, mode)
      names.set(fd, short(path))
      return fd
    },
    writeSync: (fd: number, bytes: Uint8Array, offset: number, length: number): number => {
      note(`write ${names.get(fd)}`)
      return nodeFs.writeSync(fd, bytes, offset, length)
    },
    fdatasync: (fd: number, done: (error: Error | null) => void) =>
      later('datasync', fd, done, () => nodeFs.fdatasync(fd, done)),
    fsync: (fd: number, done: (error: Error | null) => void) => later('sync', fd, done, () => nodeFs.fsync(fd, done)),
    closeSync: (fd: number): void => {
      nodeFs.closeSync(fd)
      note(`close ${names.get(fd)}`)
    },
    renameSync: (from: string, to: string): void => {
      note(`rename ${short(from)} ${short(to)}`)
      nodeFs.renameSync(from, to)
    },
    unlinkSync: (path: string): void => {
      note(`unlink ${short(path)}`)
      nodeFs.unlinkSync(path)
    },
  }
  return { fs: fs as unknown as AtomicWriteFs, log }
}

describe('atomicWriteFile', () => {
  it('creates and replaces, and tells which', async () => {
    const path = join(tempDir(), 'a')
    expect(await atomicWriteFile(path, 'one')).toEqual({ existed: false, sizeBytes: 3 })
    expect(await atomicWriteFile(path, new Uint8Array([0xe2, 0x82, 0xac]))).toEqual({ existed: true, sizeBytes: 3 })
    expect(readFileSync(path, 'utf8')).toBe('€')
    expect(await atomicWriteFile(path, '')).toEqual({ existed: true, sizeBytes: 0 })
  })

  it('syncs the content before the rename and the directory after it', async () => {
    const dir = tempDir()
    const { fs, log } = recordingFs()
    await atomicWriteFile(join(dir, 'a'), 'x', { fs })
    const name = basename(dir)
    expect(log).toEqual([
      'open temp',
      'write temp',
      'datasync temp',
      'close temp',
      'rename temp a',
      `open ${name}`,
      `sync ${name}`,
      `close ${name}`,
    ])
  })

  it('leaves out what the policy leaves out', async () => {
    const path = join(tempDir(), 'a')
    const fileOnly = recordingFs()
    await atomicWriteFile(path, 'x', { fs: fileOnly.fs, fsync: 'file-only' })
    expect(fileOnly.log.filter((call) => call.includes('sync'))).toEqual(['datasync temp'])
    const none = recordingFs()
    await atomicWriteFile(path, 'x', { fs: none.fs, fsync: false })
    expect(none.log.filter((call) => call.includes('sync'))).toEqual([])
  })

  it('writes large content whole', async () => {
    const path = join(tempDir(), 'a')
    const data = Buffer.alloc(3 * 1024 * 1024 + 7, 'abcdefg')
    await atomicWriteFile(path, data)
    expect(readFileSync(path).equals(data)).toBe(true)
  })

  it('gives a new file 0600 less the umask, and keeps the mode of an old one', async () => {
    const dir = tempDir()
    const path = join(dir, 'a')
    await atomicWriteFile(path, 'x')
    expect(statSync(path).mode & 0o777).toBe(0o600 & ~process.umask())
    chmodSync(path, 0o755)
    await atomicWriteFile(path, 'y')
    expect(statSync(path).mode & 0o777).toBe(0o755)
    await atomicWriteFile(path, 'z', { mode: 0o640 })
    expect(statSync(path).mode & 0o777).toBe(0o640)
  })

  it('keeps a file name of 255 bytes', async () => {
    const dir = tempDir()
    const name = 'é'.repeat(127) + 'a'
    await atomicWriteFile(join(dir, name), 'long')
    expect(readdirSync(dir)).toEqual([name])
    expect(engineTempName().length).toBeLessThan(64)
    expect(isEngineTempName(engineTempName())).toBe(true)
  })

  it('replaces a link instead of writing through it', async () => {
    const dir = tempDir()
    writeFileSync(join(dir, 'target'), 'old')
    symlinkSync('target', join(dir, 'link'))
    await atomicWriteFile(join(dir, 'link'), 'new')
    expect(readFileSync(join(dir, 'target'), 'utf8')).toBe('old')
    expect(readFileSync(join(dir, 'link'), 'utf8')).toBe('new')
  })

  it.each([
    ['open temp', 'EMFILE', 'LOCAL_IO'],
    ['write temp', 'ENOSPC', 'LOCAL_IO'],
    ['datasync temp', 'EIO', 'LOCAL_IO'],
    ['close temp', 'EIO', 'LOCAL_IO'],
    ['rename temp a', 'EACCES', 'PERMISSION'],
  ])('leaves the old content and no temp file when "%s" fails with %s', async (failing, errno, code) => {
    const dir = tempDir()
    const path = join(dir, 'a')
    writeFileSync(path, 'old')
    const { fs } = recordingFs((call) => (call === failing ? errno : undefined))
    await expect(atomicWriteFile(path, 'new', { fs })).rejects.toMatchObject({
      code,
      key: path,
      cause: expect.objectContaining({ code: errno }),
    })
    expect(readFileSync(path, 'utf8')).toBe('old')
    expect(readdirSync(dir)).toEqual(['a'])
  })

  it('says that the directory is missing, or that something else is in the way', async () => {
    const dir = tempDir()
    await expect(atomicWriteFile(join(dir, 'no/a'), 'x')).rejects.toMatchObject({ code: 'NOT_FOUND' })
    mkdirSync(join(dir, 'sub/full'), { recursive: true })
    await expect(atomicWriteFile(join(dir, 'sub'), 'x')).rejects.toMatchObject({ code: 'LOCAL_IO' })
    expect(readdirSync(dir)).toEqual(['sub'])
  })

  it('passes every failpoint it lists, in order, and cleans up when one throws', async () => {
    const dir = tempDir()
    const passed: string[] = []
    await atomicWriteFile(join(dir, 'a'), 'x', { failpoint: (name) => void passed.push(name) })
    expect(passed).toEqual(ATOMIC_WRITE_FAILPOINTS)
    const stop = new Error('stop')
    const failpoint = (name: string): void => {
      if (name === 'atomic-write:synced') throw stop
    }
    await expect(atomicWriteFile(join(dir, 'b'), 'x', { failpoint })).rejects.toBe(stop)
    expect(readdirSync(dir)).toEqual(['a'])
  })
})
